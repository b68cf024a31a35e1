// State: the actor that owns every buffer of its ranks and is alone in touching them.
//
// Ranks are served one message at a time, so no lock exists and no reader ever sees half-mixed
// weights. A snapshot is a lease from a fixed pool; an empty lease says that the pool is out, and
// the exchange is declined.
//
// The vectors lie in the host's memory, or all of them on a device (device_share.hpp), and there is
// one path for both. What a handler must know of a device (is this snapshot too far off?) it asks
// first and goes on when the answer is there (device_turns.hpp). On the CPU all answers are there
// at once, and nothing ever waits.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/algorithms/method_registry.hpp"
#include "actors/clocks/run_clock.hpp"
#include "actors/device/device_share.hpp"
#include "actors/guard/guard.hpp"
#include "actors/mail/mail_state.hpp"
#include "actors/state/device_turns.hpp"
#include "actors/state/guest_fronts.hpp"
#include "actors/state/ring_parts.hpp"
#include "kernels/base/fork_join.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"
#include "models/objective.hpp"

namespace grapevine {

/// At most, of all ranks of a state actor together.
struct StatePools {
  size_t snapshots = 0;
  size_t messages = 0;  // what goes to other ranks
  RingParts parts;      // of the ring of all
  size_t ranks = 0;     // here
};

struct StateDependencies {
  RunClock clock;
  std::shared_ptr<Objective> objective;
  std::string method;
  RuleSettings rule = {};
  uint64_t seed = 1;
  std::shared_ptr<ForkJoin> pool = {};       // splits passes over large vectors; may be empty
  std::shared_ptr<DeviceShare> device = {};  // where the ranks live; null: in the host's memory
  int ranks = 1;                             // of the objective
  int groups = 1;  // state actors of the node: this one serves every groups-th rank
  StatePools pools = {};
  SnapshotPool::Memory memory = SnapshotPool::Memory::own;  // of messages and chunks
  bool measures_distance = false;  // across an edge, now and then: how far apart are its ends?
  bool recorded = false;           // its ranks will be, for checkpoints
  bool guarded = true;             // false: whatever is finite is taken whole, to compare with
  bool audits = false;  // follow what must be conserved through every gradient: two passes more
  // Told which rank's rule has thrown what, and of a device that is lost; such a rank is as one
  // that has gone. Empty: none throws.
  std::function<void(const std::string& where, const std::string& text)> on_throw = {};
};

class State final : public StateActor::base {
 public:
  State(caf::actor_config& config, StateDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Member {
    int rank = 0;
    bool owes_copy = false;  // to the worker, when the round is finished
    std::unique_ptr<Rule> rule;
    uint64_t epoch = 0;  // of the neighbours that the rule knows
    CommunicatorActor communicator;
    WorkerActor worker;
    uint64_t gradients = 0;
    Guard guard;
  };

  struct Chunks {
    RingParts parts;
    std::unique_ptr<SnapshotPool> pool;
  };

  struct Guest {
    std::shared_ptr<GuestSeat> owed;  // x, when the round is finished
    uint64_t exchanges = 0;           // that have moved it, or rounds, since the first script
  };

  Member* find(int rank);
  template <class Work>
  bool guarded(int rank, Work&& work);
  void drop(int rank);

  // What waits: for a rank's turn, for a device.
  DeviceTurns::Owner turns_owner();
  template <class Message>
  void in_turn(Message& message, void (State::*serve)(Message&));
  template <class Ask, class Then>
  void foresee(Member&, Ask&& ask, Then&& then);
  void lose_device();
  void lose_ranks(const char* why);
  template <class Work>
  void within_memory(Work&& work);
  Lease slot(SnapshotPool&, Where = Where::current());
  Fence queued(Where = Where::current());
  bool is(Pattern pattern) const { return method_.pattern == pattern; }
  // REQUIRES: the method's rules are of this form.
  static PairwiseRule& pairwise(Member& m) { return static_cast<PairwiseRule&>(*m.rule); }
  static RoundRule& rounds(Member& m) { return static_cast<RoundRule&>(*m.rule); }
  static CollectiveRule& collective(Member& m) { return static_cast<CollectiveRule&>(*m.rule); }
  void take_in_turn(const TakeRequest&);
  void take(Member&, const TakeRequest&);
  std::unique_ptr<SnapshotPool> pool_of(size_t size, DType, size_t capacity,
                                        SnapshotPool::Memory) const;
  void have_chunks(const RingParts&);
  Lease chunk(size_t count);
  void write_phase(WriteRequest&);
  void write(Member&, int phase);
  void note_room(int rank, bool has_room);
  void apply(ApplyRequest&);
  int sender(Member&, size_t places, size_t k);
  void ask_sums(Member&, const Apply&);
  void carry_out(Member&, Apply&);
  void begin(Member&, const Apply&);
  double norm_of_sum(Member&);
  void combine(Member&, Apply&);
  std::vector<Received> judge_messages(Member&, Apply&);
  void judge_pull(Member&, int phase, std::vector<Received>, const Limits& of_all);
  void end_phase(Member&, int phase, std::span<const Received>);
  template <class Step, class Then>
  void measured(Member&, double now, Step&& step, ConstVec x_after, Then&& then);
  double step_length(Member&, ConstVec x_after);
  void note(int rank, const ExchangeKey&, double moved);
  void jump(Member&, Apply&);
  double share_of(Member&, int peer, const Guard::Judgement&);
  void finish(Member&, const Apply&);
  void set_view_of(SetView&);
  void set_view(Member&, const View&);
  void gradient(Gradient&);
  ConstVec read(const Gradient&);
  void fetch(Fetch&);
  void step_together(Member&);
  void take_step(TakeStep&);
  void step_from(Member&, std::shared_ptr<GuestSeat>);
  void take_front(Member&, std::shared_ptr<GuestSeat>);
  void hand_over(Member&, std::shared_ptr<GuestSeat>);
  void show(Member&, std::shared_ptr<GuestSeat>);
  Guest* guest(const Member&);
  void count_exchange(const Member&);
  void pay_copy(Member&);
  void send_copy(Member&, Lease copy);
  void attach(Attach&);
  void settle_in_lifted(Attach&, bool brings_start, std::vector<Buffer>& lifted);
  void settle_in(Attach&, ConstVec start, const RankState*, RankRecordPtr);
  void take_over(Member&, const RankState&);
  void go_on_from(Member&, RankRecordPtr);
  void recall_edges(Member&, const View&);
  void detach(Detach&);
  Lease read(Member&);
  // Answers that may take a while.
  template <class Answer>
  struct Reply {
    State* state;
    uint64_t debt;
    caf::typed_response_promise<Answer> promise;

    void operator()(Answer answer) const {
      if (state->turns_.settle(debt))  // else it has been told that there is nothing
        caf::typed_response_promise<Answer>(promise).deliver(std::move(answer));
      state->turns_.leave_room();
    }
  };
  template <class Answer>
  Reply<Answer> owe(Answer nothing);
  using Seen = std::function<void(Member&, const std::shared_ptr<Buffer>& x)>;
  void read_all(size_t place, Seen see, std::function<void()> done);
  template <class Answer, class Message>
  caf::typed_response_promise<Answer> answered(const Message&, Answer nothing,
                                               void (State::*answer)(Member&, const Message&,
                                                                     Reply<Answer>));
  void record(Member&, const RecordRank&, Reply<RankRecordPtr>);
  void copy_state(Member&, const CopyState&, Reply<RankStatePtr>);
  void tell(Member&, const ReadRank&, Reply<RankParameters>);
  bool counts_in_sample(const Member&) const;
  void sample(const Sample&, Reply<SampleReply>);
  void sample_there(const Sample&, Reply<SampleReply>);
  std::shared_ptr<Buffer> conserved();
  void collect(Reply<Collected>);
  StateReport report();
  template <class Change>
  void audited(Member&, double sign_before, double sign_after, Change&& change);

  StateDependencies deps_;
  const Method& method_;
  Execution execution_;
  DeviceTurns turns_;
  Buffer before_, after_;     // x at a step: its length is measured by them
  bool moves_alone_ = false;  // a rank has been moved as no other one was: the sum is not kept
  Buffer nothing_;            // the gradient of a rank that has none; made when it is first wanted
  Buffer common_start_;       // on a device, where all ranks begin alike: once one has come
  std::unique_ptr<SnapshotPool> snapshots_;
  std::vector<Chunks> chunks_;              // of each range of rings that there has been
  std::unique_ptr<SnapshotPool> messages_;  // as large as the rule's largest
  std::vector<Member> members_;             // rank r is at r / groups; gone ranks have no rule
  // Of runs that have checkpoints: what exchanges with a peer had done to a rank; and by rank, what
  // an earlier life left, until it has its first neighbours.
  std::map<std::pair<int, int>, RankRecord::Edge> histories_;
  std::map<int, RankRecordPtr> resumed_;
  std::map<int, std::vector<Limits>>
      told_;                         // by rank: with the messages of its phase, by neighbour
  std::map<int, int> without_room_;  // by rank: how often in a row a phase could not be written
  double broken_after_norm_ = 0;     // of jumps whose other half may be missing, summed
  std::map<int, Guest> guests_;      // by rank: those whose steps scripts have taken
  GuestFronts fronts_;
  Buffer expected_;  // fp64: what the sum of x + x~ must be
};

// Every call into a rule is made in here, for rules of the caller's own may throw. False: it has.
template <class Work>
bool State::guarded(int rank, Work&& work) {
  std::string text = "what it threw is no std::exception";
  std::string where = "the rule of rank " + std::to_string(rank);
  try {
    work();
    return true;
  } catch (const std::bad_alloc& e) {
    if (!deps_.on_throw) throw;
    if (deps_.device) where = "the device of this process";
    text = deps_.device ? "it has too little memory left, or is lost" : e.what();
  } catch (const std::exception& e) {
    if (!deps_.on_throw) throw;
    text = e.what();
  } catch (...) {
    if (!deps_.on_throw) throw;
  }
  deps_.on_throw(where, text);
  drop(rank);
  return false;
}

template <class Message>
void State::in_turn(Message& message, void (State::*serve)(Message&)) {
  if (!turns_.is_held(message.rank)) {
    guarded(message.rank, [&] { (this->*serve)(message); });
    return;
  }
  turns_.wait(message.rank, [this, message = std::move(message), serve]() mutable {
    guarded(message.rank, [&] { (this->*serve)(message); });
  });
}

// expected += sign_before (x + x~) before the change and sign_after (x + x~) after it.
template <class Change>
void State::audited(Member& member, double sign_before, double sign_after, Change&& change) {
  const double now = deps_.clock.now();
  auto add = [&](double sign) {
    if (!deps_.audits || sign == 0 || !member.rule->conserves()) return;
    Buffer sum(execution_, expected_.size(), DType::f64);
    member.rule->add_conserved(now, sum);
    axpy(execution_, sign, sum, expected_);
  };
  add(sign_before);
  change();
  add(sign_after);
}

}  // namespace grapevine
