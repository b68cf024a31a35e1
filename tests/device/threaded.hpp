// Threaded: a Device whose streams are threads, for the thread sanitizer.
//
// An event orders two accesses here by one release and one acquire. Nothing else orders them: a
// queue has one writer, one reader and no lock. So two accesses without an event between them are a
// data race of two threads, which the sanitizer finds independently of the adversary. This device
// never fails, and any thread can access its memory. The memory is in memfds, so other processes
// can open it, too.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/base/descriptor.hpp"
#include "kernels/device/device.hpp"

namespace grapevine::testing {

class Threaded final : public Device {
 public:
  /// At most `most` pieces of work in a stream during its life.
  explicit Threaded(size_t most);
  /// Waits for all that is queued.
  ~Threaded() override;
  Threaded(const Threaded&) = delete;

  Fate allocate(size_t bytes, Block::Kind, Block& out) override;
  Fate free(const Block&, Where) override;
  Fate pin(const Access&, Where) override { return Fate::ok; }
  Fate make_stream(bool urgent, Stream& out) override;
  Fate make_event(Event& out) override;
  Fate record(Event, Stream, Where) override;
  Fate wait(Stream, Event, Where) override;
  Fate query(Event, Where) override;
  Fate copy(Stream, void* to, const void* from, size_t bytes, Where) override;
  Fate launch(Stream, std::span<const Access>, Body, Where) override;
  void when(Event, std::function<void(Fate)> then, Where) override;
  Fate drain() override;
  void on_lost(std::function<void()>) override {}
  void give_up() override {}
  Fate share(const Block&, int& descriptor) override;
  Fate open(int descriptor, size_t bytes, Block&) override;

 private:
  using Done = std::shared_ptr<std::atomic<bool>>;

  /// A thread and what it has to do, one after the other.
  class Line {
   public:
    explicit Line(size_t most);
    ~Line();  // when all is done
    void push(std::function<void()> work);

   private:
    void serve();
    std::vector<std::function<void()>> work_;
    std::atomic<size_t> queued_{0};
    size_t done_ = 0;
    std::thread thread_;
  };

  const size_t most_;
  std::map<const std::byte*, Descriptor> memory_;  // of device blocks, by first address
  std::vector<Done> events_;                       // null: never recorded
  std::vector<std::unique_ptr<Line>> streams_;
  Line tells_;  // those who wait: in the order in which they asked
};

}  // namespace grapevine::testing
