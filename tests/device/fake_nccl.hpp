// FakeNccl: NCCL for tests. What it answers, and when, the test says; what is asked of it that NCCL
// forbids, or that could stand still, is a finding.
#pragma once
#include <vector>

#include "kernels/gpu/nccl_edge.hpp"
#include "tests/device/adversary.hpp"

namespace grapevine::testing {

class FakeNccl {
 public:
  struct Comm {
    NcclAnswer state = NcclAnswer::in_progress;  // what poll answers
    Stream stream;                               // the test's to set: the edge's
    bool connects = true;                        // it has not done so yet
    bool flies = false;                          // its kernel is queued, or may be
    bool is_given_up = false;
    bool was_idle = false;                    // when it was given up: destroyed, not aborted
    uint64_t number = 0;                      // of its last exchange
    NcclAnswer answer = NcclAnswer::success;  // to that
    std::function<void()> ended = {};
  };

  FakeNccl(AdverseWorld& world, Adversary& device) : world_(world), device_(device) {}
  NcclCalls calls();

  // The answers of the next calls:
  NcclAnswer init = NcclAnswer::in_progress, exchange = NcclAnswer::in_progress;
  bool makes_comm = true;
  std::function<void(size_t)> on_given_up = [](size_t) {};

  /// The two ends have met.
  void connect(size_t comm);
  /// The kernel of the exchange is queued.
  void queue(size_t comm);
  /// The other end has sent its part.
  void answer(size_t comm);
  /// It has been given up entirely: its kernel leaves the device.
  void end(size_t comm);

  std::vector<Comm> comms;
  NcclTransfer last;  // that was asked for

 private:
  Comm& used(NcclComm comm, const char* call);
  NcclAnswer begin(const NcclId&, int rank, NcclComm& out);
  NcclAnswer transfer(NcclComm, const NcclTransfer&);
  void give_up(NcclComm, std::function<void()> ended, bool was_idle);

  AdverseWorld& world_;
  Adversary& device_;
};

}  // namespace grapevine::testing
