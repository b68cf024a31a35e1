// DeviceTurns: what a state actor waits for: the turn of a rank, and work of its device.
//
// A handler that needs a number from a device asks for it first (foresee) and continues when the
// answer has arrived. The rank is held meanwhile, so its arithmetic follows the order of its
// messages. Vectors are copied in pieces (ferry.hpp), for one rank at a time: a rank that is added,
// recorded or read has the room for copies (with_room). Every caller that waits gets an answer even
// if the device is lost. Without a device every answer is there at once, and nothing waits.
//
// Owned and called by the state actor alone.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "actors/device/device_share.hpp"
#include "actors/state/turns.hpp"

namespace grapevine {

class DeviceTurns : public Turns {
 public:
  struct Owner {
    /// Makes what is called, on any thread, when that ticket's fence has come: it leads to
    /// arrived().
    std::function<std::function<void(Fate)>(uint64_t ticket)> on_fence;
    /// Does work of a rank, which may throw.
    std::function<void(int rank, const std::function<void()>& work)> guarded;
    /// Calls look() in a second.
    std::function<void()> look_later;
  };

  /// `device` may be null; else it outlives this.
  DeviceTurns(DeviceShare* device, Owner);

  /// Then() once the fence has come: at once, if it has.
  void when(const Fence&, std::function<void()> then, Where = Where::current());
  /// The continuation for this ticket, whose fence has happened; empty: nothing waits for it.
  std::function<void()> arrived(uint64_t ticket);
  /// Then(), in which all sums are known that ask() has asked for.
  template <class Ask, class Then>
  void foresee(int rank, Ask&& ask, Then&& then);
  /// In then(): what goes on once it has returned, and may ask for sums of its own. The rank is
  /// held until then.
  void afterwards(std::function<void()> work) { afterwards_ = std::move(work); }

  /// The rank is held until the vector is there and then() is done. REQUIRES: `host` stays.
  void up(int rank, ConstVec host, Vec there, std::function<void()> then);
  void down(ConstVec there, Vec host, std::function<void()> then);
  /// Copies on the device, in the order of the host's vectors.
  void lift(std::vector<ConstVec> host, std::function<void(std::vector<Buffer>&)> then);
  /// The vectors, wherever they are, are in the host's memory then.
  void lower(std::vector<Buffer*> buffers, std::function<void()> then);
  /// work() starts something that ends with leave_room(). The holder of a rank's turn may wait for
  /// the room, but not the other way round.
  void with_room(std::function<void()> work);
  void leave_room() { release(kRoom); }

  /// Answer() is called if the device is lost before remove_answer() of what this returns.
  uint64_t add_answer(std::function<void()> answer);
  /// False: it has been answered.
  bool remove_answer(uint64_t number) { return pending_.erase(number) > 0; }

  /// As long as work of a device is open, it is checked whether it still answers.
  void look_soon();
  void look(double now_s);

  /// No rank lives on it any more. Fences of a device that is lost never come.
  void close(bool is_lost);
  bool is_closed() const { return is_closed_; }
  /// Everybody who waits has an answer, and all turns are over.
  void dismiss();
  /// Nobody who waits is answered.
  void clear();

 private:
  struct Awaited {
    std::function<void()> then;
    SilenceWatch::Expected expected;
  };
  static constexpr int kRoom = -1;

  void await(int rank, const Fence&, std::function<void()> then);
  void go_on() {
    if (const auto work = std::exchange(afterwards_, nullptr)) work();
  }

  DeviceShare* device_;
  Owner owner_;
  std::unique_ptr<Ferry> ferry_;
  std::map<uint64_t, Awaited> awaited_;                // by ticket
  std::map<uint64_t, std::function<void()>> pending_;  // by number
  std::function<void()> afterwards_;
  uint64_t tickets_ = 0, answers_ = 0;
  bool is_closed_ = false, looks_ = false;
};

template <class Ask, class Then>
void DeviceTurns::foresee(int rank, Ask&& ask, Then&& then) {
  const auto at_once = [&] {
    then();
    go_on();
  };
  if (device_ == nullptr) return at_once();
  Workspace& workspace = device_->workspace();
  const auto answers = std::make_shared<Inquiry>();
  workspace.ask(*answers, ask);
  if (answers->empty()) return at_once();
  await(rank, answers->ready(), [this, &workspace, answers, then] {
    workspace.answer(*answers, then);
    go_on();
  });
}

}  // namespace grapevine
