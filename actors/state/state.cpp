#include "actors/state/state.hpp"

#include <new>
#include <utility>

namespace grapevine {

State::State(caf::actor_config& config, StateDependencies deps)
    : StateActor::base(config),
      ranks_(*this, std::move(deps), turns_owner()),
      copies_(ranks_),
      exchanges_(ranks_, copies_),
      steps_(ranks_, copies_, exchanges_),
      guest_steps_(ranks_, copies_, exchanges_, steps_),
      records_(ranks_, exchanges_),
      reports_(ranks_) {}

// --- requests that wait

DeviceTurns::Owner State::turns_owner() {
  constexpr double kLook_s = 1;
  DeviceTurns::Owner owner;
  owner.on_fence = [this](uint64_t ticket) {
    return [self = caf::actor_cast<StateActor>(this), ticket](Fate fate) {
      caf::anon_send(self, Arrived{ticket, fate != Fate::ok});
    };
  };
  owner.guarded = [this](int rank, const std::function<void()>& work) {
    ranks_.guarded(rank, work);
  };
  owner.look_later = [this] {
    const RunClock& clock = ranks_.deps.clock;
    scheduled_send(caf::actor_cast<StateActor>(this), clock.instant(clock.now() + kLook_s), Tick{});
  };
  return owner;
}

template <class Message, class Serve>
void State::in_turn(Message& message, Serve serve) {
  const int rank = message.rank;
  if (!ranks_.turns.is_held(rank)) {
    ranks_.guarded(rank, [&] { serve(message); });
    return;
  }
  ranks_.turns.wait(rank, [this, rank, message = std::move(message), serve]() mutable {
    ranks_.guarded(rank, [&] { serve(message); });
  });
}

// Runs work of no particular rank that may need memory of a device.
template <class Work>
void State::within_memory(Work&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    if (!ranks_.deps.device || !ranks_.deps.on_throw) throw;
    lose_ranks("it has too little memory left");
  }
}

void State::lose_device() {
  ranks_.deps.device->set_lost();
  ranks_.turns.close(true);
  lose_ranks("it is lost, and its ranks with it");
}

// Answers all requests that wait, as if their rank had gone.
void State::lose_ranks(const char* why) {
  ranks_.turns.close(false);
  for (const StateRank& rank : ranks_.all()) {
    if (!rank.rule) continue;
    send(rank.communicator, Order::leave);  // its exchanges get no more answers
    ranks_.drop(rank.rank);
  }
  ranks_.turns.dismiss();
  if (ranks_.deps.on_throw) ranks_.deps.on_throw("the device of this process", why);
}

// The caller gets an answer in any case.
void State::take_in_turn(const TakeRequest& r) {
  const auto serve = [this, r](const CommunicatorActor& asker) {
    const bool served = ranks_.guarded(r.rank, [&] {
      if (StateRank* rank = ranks_.find(r.rank)) return exchanges_.take(*rank, r);
      send(asker, Taken{r.take.ticket, {}, 0});  // not added yet, or gone
    });
    if (!served) send(asker, Taken{r.take.ticket, {}, 0});
  };
  const auto asker = caf::actor_cast<CommunicatorActor>(current_sender());
  if (!ranks_.turns.is_held(r.rank)) return serve(asker);
  ranks_.turns.wait(r.rank, [serve, asker] { serve(asker); });
}

caf::typed_response_promise<HandedIn> State::hand_all_in() {
  auto promise = make_response_promise<HandedIn>();
  steps_.hand_all_in();
  ranks_.turns.when_free([promise]() mutable { promise.deliver(HandedIn{}); });
  return promise;
}

// --- answers

template <class Answer>
State::Reply<Answer> State::reply_of(Answer nothing) {
  auto promise = make_response_promise<Answer>();
  const auto answer = [promise, nothing]() mutable { promise.deliver(nothing); };
  return {this, ranks_.turns.add_answer(answer), promise};
}

template <class Answer, class Give>
caf::typed_response_promise<Answer> State::answered(int rank, Answer nothing, Give answer) {
  const Reply<Answer> reply = reply_of(nothing);
  const auto serve = [this, rank, nothing, answer, reply] {
    bool done = false;
    ranks_.guarded(rank, [&] {
      StateRank* here = ranks_.find(rank);
      if (here == nullptr) return;
      answer(*here, reply);
      done = true;
    });
    if (!done) reply(nothing);
  };
  DeviceTurns& turns = ranks_.turns;
  const auto take_turn = [&turns, rank, serve] {
    turns.hold(rank);
    turns.with_room([&turns, rank, serve] {
      serve();
      turns.release(rank);
    });
  };
  turns.is_held(rank) ? turns.wait(rank, take_turn) : take_turn();
  return reply.promise;
}

State::behavior_type State::make_behavior() {
  if (ranks_.deps.device) {
    ranks_.deps.device->device().on_lost(
        [self = caf::actor_cast<caf::weak_actor_ptr>(ctrl()), objective = ranks_.deps.objective] {
          objective->lose_gpu();  // also if the run has ended
          if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(self))
            caf::anon_send(caf::actor_cast<StateActor>(alive), DeviceLost{});
        });
  }
  return {
      [this](TakeRequest& r) { take_in_turn(r); },
      [this](WriteRequest& r) {
        in_turn(r, [this](const WriteRequest& w) {
          if (StateRank* rank = ranks_.find(w.rank)) exchanges_.write(*rank, w.write.phase);
        });
      },
      [this](ApplyRequest& r) { in_turn(r, [this](ApplyRequest& a) { exchanges_.apply(a); }); },
      [this](Gradient& g) { in_turn(g, [this](Gradient& of) { steps_.gradient(of); }); },
      [this](TakeStep& s) { in_turn(s, [this](TakeStep& of) { guest_steps_.take_step(of); }); },
      [this](Fetch& f) { in_turn(f, [this](const Fetch& of) { copies_.fetch(of); }); },
      [this](SetView& s) { in_turn(s, [this](const SetView& of) { records_.enter(of); }); },
      [this](Attach& a) { in_turn(a, [this](Attach& of) { records_.attach(of); }); },
      [this](Detach& d) { in_turn(d, [this](const Detach& of) { records_.detach(of); }); },
      [this](Arrived arrived) {
        const auto then = ranks_.turns.arrived(arrived.ticket);
        if (then && !arrived.lost) within_memory(then);
      },
      [this](DeviceLost) { lose_device(); },
      [this](DeviceTask& t) {
        t.task();
        ranks_.turns.look_soon();
      },
      [this](HandIn) { return hand_all_in(); },
      [this](Tick) { ranks_.turns.look(ranks_.now()); },
      [this](CopyState d) {
        return answered(d.rank, RankStatePtr(), [this, whole = d.whole](StateRank& r, auto reply) {
          records_.copy(r, whole, reply);
        });
      },
      [this](RecordRank r) {
        return answered(r.rank, RankRecordPtr(),
                        [this](StateRank& rank, auto reply) { records_.record(rank, reply); });
      },
      [this](Sample& s) {
        const auto reply = reply_of(SampleReply());
        ranks_.turns.with_room(
            [this, s, reply] { within_memory([&] { reports_.sample(s, reply); }); });
        return reply.promise;
      },
      [this](ReadRank r) {
        return answered(r.rank, RankParameters{r.rank, {}, nullptr},
                        [this](StateRank& rank, auto reply) { reports_.tell(rank, reply); });
      },
      [this](Collect) {
        const auto reply = reply_of(Collected());
        ranks_.turns.when_free([this, reply] {
          ranks_.turns.with_room([this, reply] {
            within_memory([&] { reports_.collect(exchanges_.broken_after_norm(), reply); });
          });
        });
        return reply.promise;
      },
      [this](Report) { return reports_.report(exchanges_.broken_after_norm()); },
  };
}

void State::on_exit() {
  ranks_.turns.clear();
  copies_.clear();
  ranks_.clear();
  steps_.clear();
  records_.clear();
  ranks_.deps.device.reset();
  ranks_.deps.objective.reset();
}

}  // namespace grapevine
