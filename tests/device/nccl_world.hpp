// NcclWorld: NCCL between the devices of one world. Two communicators with one id meet; what one
// end of an exchange sends is what the other one receives, and it ends for both when both have
// queued it. How long all that takes, and what fails, is drawn; what NCCL forbids, or what could
// stand still, is a finding, as in fake_nccl.hpp.
#pragma once
#include <memory>
#include <vector>

#include "kernels/gpu/nccl.hpp"
#include "tests/device/adversary.hpp"

namespace grapevine::testing {

class NcclWorld {
 public:
  static constexpr int kVersion = 22809;

  explicit NcclWorld(AdverseWorld& world) : world_(world) {}
  NcclWorld(const NcclWorld&) = delete;

  /// Of a device, which outlives its last use.
  Nccl of(Adversary& device, int version = kVersion);
  /// The process of a device has died, which its peers may hear of or not.
  void kill(Adversary& device);
  /// Destroys all communicators that were given up, and tells nobody.
  void clear();

  // Probabilities of faults:
  double begins_not = 0;     // an end cannot begin to connect
  double meets_never = 0;    // two ends that could meet
  double queues_never = 0;   // an exchange that both have begun
  double errs = 0;           // an exchange, in the middle
  double lets_go_never = 0;  // what is given up

  // So far, and now:
  uint64_t connected = 0, exchanged = 0;   // pairs of ends; both of an exchange
  uint64_t bytes = 0;                      // that went from one device to another
  bool exchanges(const Adversary&) const;  // now
  size_t standing() const;                 // ends that are not given up
  size_t stuck() const;                    // given up, and not let go of

 private:
  struct Comm {
    Adversary* device = nullptr;  // null: dead
    NcclId id = {};
    int rank = 0;
    NcclAnswer state = NcclAnswer::in_progress, answer = NcclAnswer::in_progress;
    Comm* other = nullptr;
    bool connects = true, is_given_up = false, flies = false;
    Stream stream;
    NcclTransfer last;            // its memory is that of the golden twin
    std::vector<std::byte> sent;  // of the last exchange
    bool has_come = false;        // what it receives in that
    std::function<void()> ended;
  };

  bool often(double part) { return part > 0 && world_.random().uniform() < part; }
  void after(double least_s, double most_s, std::function<void()> what);
  Comm& used(NcclComm, const char* call);
  NcclAnswer begin(Adversary&, const NcclId&, int rank, NcclComm& out);
  void meet(Comm&);
  NcclAnswer exchange(NcclComm, const NcclTransfer&);
  NcclAnswer first(Comm&, const NcclTransfer&);
  void both_are_there(Comm&, Comm&);
  void receive(Comm&, void* into) const;
  void give_up(NcclComm, std::function<void()> ended, bool was_idle);
  void let_go(Comm&);
  void tell_of(Comm& gone);

  AdverseWorld& world_;
  std::vector<std::unique_ptr<Comm>> comms_;
  uint64_t ids_ = 0;
  const std::shared_ptr<int> life_ = std::make_shared<int>();  // what is set to happen ends with it
};

}  // namespace grapevine::testing
