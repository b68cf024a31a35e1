// Checkpointer: the actor that records the ranks of a process during the run.
//
//   a checkpoint is due (time, steps or a request) -> which ranks are here? -> RecordRank to the
//   state of one rank -> `write` its record -> `done` is called: the next rank ... -> the end
//
// This actor has one copy of one rank's state at a time. `write` hands a record to the owner of the
// disk and returns, so only this actor waits. Ranks are recorded at different instants. The records
// of an edge show which exchanges only one end had applied by then.
//
// If a checkpoint cannot be written, it is abandoned. The run continues, with an alarm until a
// checkpoint is complete.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/mail_state.hpp"
#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/counters.hpp"
#include "actors/settings/samples.hpp"

namespace grapevine {

struct SaveNow {};  // answered with a line once the checkpoint is written or has failed
struct PartWritten {
  bool is_written = false;
  std::string told;
};

struct CheckpointerDependencies {
  RunClock clock;
  std::vector<StateActor> states;  // rank r is served by states[r mod size]
  std::shared_ptr<Counters> counters;
  int ranks = 1;         // here
  double look_s = 0.1;   // the time between two checks whether one is due
  double trained_s = 0;  // in earlier lives of the run
  CheckpointOrders orders;
  Sink sink;
};

class Checkpointer final : public CheckpointerActor::base {
 public:
  Checkpointer(caf::actor_config& config, CheckpointerDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  uint64_t steps() const;
  bool is_due();
  void poll();
  void begin();
  void record_next();
  void write(CheckpointPart);
  void on_written(const PartWritten&);
  void judge(const PartWritten& last);
  void watch_age();
  void end(const std::string& told);

  CheckpointerDependencies deps_;
  double next_s_ = 0, whole_at_s_ = 0;
  uint64_t next_steps_ = 0;
  int asked_ = 0;         // the requests of orders.asked that have been served
  bool writing_ = false;  // a checkpoint is being written
  bool any_ = false;      // a rank was here
  bool ending_ = false;   // all ranks are written
  bool alarmed_ = false;  // one failed, and none was complete since
  uint64_t gradients_ = 0;
  double trained_s_ = 0;    // as in CheckpointPart
  size_t awaited_ = 0;      // states that have not answered which ranks are here
  std::vector<int> ranks_;  // still to be recorded, in falling order
  // later_ wait for the next checkpoint.
  std::vector<caf::typed_response_promise<std::string>> askers_, later_;
};

}  // namespace grapevine
