// DeviceTurns: the requests that wait in a state actor, for a rank's turn or for its device.
//
// A handler that needs a number from a device asks for it first (foresee) and continues when the
// answer has arrived. The rank is held meanwhile, so its arithmetic follows the order of its
// messages. Vectors are copied in pieces (ferry.hpp), for one rank at a time: a caller that adds,
// records or reads a rank uses the room for copies (with_room). Every caller that waits gets an
// answer, even if the device is lost. Without a device every answer is there at once and nothing
// waits.
//
// Only the state actor owns and calls it.
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
    /// Returns the callback for this ticket, which any thread calls when the fence has happened. It
    /// leads to arrived().
    std::function<std::function<void(Fate)>(uint64_t ticket)> on_fence;
    /// Runs work of a rank; the work may throw.
    std::function<void(int rank, const std::function<void()>& work)> guarded;
    /// Calls look() after a second.
    std::function<void()> look_later;
  };

  /// `device` may be null; else it outlives this.
  DeviceTurns(DeviceShare* device, Owner);

  /// Calls then() once the fence has happened: at once, if it has.
  void when(const Fence&, std::function<void()> then, Where = Where::current());
  /// The continuation for this ticket, whose fence has happened; empty: nothing waits for it.
  std::function<void()> arrived(uint64_t ticket);
  /// Calls then() when all sums that ask() asked for are known.
  template <class Ask, class Then>
  void foresee(int rank, Ask&& ask, Then&& then);
  /// For use in then(): `work` runs after then() returns, and may ask for sums. The rank is held
  /// until it ends.
  void afterwards(std::function<void()> work) { afterwards_ = std::move(work); }

  /// Copies a vector to the device. The rank is held until then() returns. REQUIRES: `host`
  /// remains.
  void up(int rank, ConstVec host, Vec there, std::function<void()> then);
  void down(ConstVec there, Vec host, std::function<void()> then);
  /// Copies the host's vectors to the device, in their order.
  void lift(std::vector<ConstVec> host, std::function<void(std::vector<Buffer>&)> then);
  /// Copies the vectors to the host's memory, if they are on the device.
  void lower(std::vector<Buffer*> buffers, std::function<void()> then);
  /// work() starts something that ends with leave_room(). The holder of a rank's turn may wait for
  /// the room; the user of the room must not wait for a turn.
  void with_room(std::function<void()> work);
  void leave_room() { release(kRoom); }

  /// Returns a number. If the device is lost before remove_answer() of it, answer() is called.
  uint64_t add_answer(std::function<void()> answer);
  /// False: the answer was given.
  bool remove_answer(uint64_t number) { return pending_.erase(number) > 0; }

  /// Checks that the device still answers, as long as work on it is open.
  void look_soon();
  void look(double now_s);

  /// From now on the device has no ranks. Fences of a lost device never happen.
  void close(bool is_lost);
  bool is_closed() const { return is_closed_; }
  /// Answers everything that waits and ends all turns.
  void dismiss();
  /// Drops everything that waits, without an answer.
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
