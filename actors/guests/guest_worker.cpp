#include "actors/guests/guest_worker.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/algorithms/method_registry.hpp"
#include "actors/rank/work_pool.hpp"
#include "actors/settings/counters.hpp"
#include "actors/settings/rank_ledger.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

namespace {

constexpr double kStands = 10;         // times the usual time between two steps
constexpr double kLookAgain_s = 0.02;  // for gradients in the pool
// After its end; if all ranks end together, no round is open then.
constexpr double kRests_s = 0.5;

bool waits_for_all(const Method& method) {
  return method.pattern != Pattern::pairwise && method.waits;
}

}  // namespace

void GuestTable::set_seat(int place, std::shared_ptr<GuestSeat> seat) {
  const Lock lock(mutex_);
  Place& at = places_[static_cast<size_t>(place)];
  at.seat = std::move(seat);
  if (at.served_by.worker) caf::anon_send(at.served_by.worker, Seated{at.seat});
}

void GuestTable::finish(int place) {
  const Lock lock(mutex_);
  Place& at = places_[static_cast<size_t>(place)];
  at.finished = true;
  if (at.served_by.worker) caf::anon_send(at.served_by.worker, GuestFinished{});
}

bool GuestTable::take_step_left() {
  uint64_t left = left_;
  while (left > 0 && !left_.compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

void GuestTable::serve(int place, RankWorker worker) {
  const Lock lock(mutex_);
  if (closed_) return;
  Place& at = places_[static_cast<size_t>(place)];
  at.served_by = std::move(worker);
  if (at.finished) caf::anon_send(at.served_by.worker, GuestFinished{});
  if (at.seat) caf::anon_send(at.served_by.worker, Seated{at.seat});
}

void GuestTable::close() {
  const Lock lock(mutex_);
  closed_ = true;
  for (Place& place : places_)
    place.served_by.worker = nullptr;
}

GuestTable::RankWorker GuestTable::worker_at(int place) const {
  const Lock lock(mutex_);
  return places_[static_cast<size_t>(place)].served_by;
}

MakeWorker guest_workers(std::shared_ptr<GuestTable> table) {
  return [table = std::move(table)](caf::actor_system& system, WorkerDependencies deps) {
    const int place = deps.place, rank = deps.rank;
    GuestWorkerActor worker = system.spawn<GuestWorker>(std::move(deps), table);
    table->serve(place, {rank, worker});
    return WorkerActor(worker);
  };
}

GuestWorker::GuestWorker(caf::actor_config& config, WorkerDependencies deps,
                         std::shared_ptr<GuestTable> table)
    : GuestWorkerActor::base(config),
      deps_(std::move(deps)),
      table_(std::move(table)),
      share_(deps_.horizon),
      rests_(waits_for_all(method_named(deps_.settings->method))) {}

void GuestWorker::seated(Seated& now) {
  computed();
  seat_ = std::move(now.seat);
  waits_for_work_ = asked_ = false;
  const double at = deps_.clock.now();
  if (seat_ == nullptr && !over()) deps_.ledger->stand(Lost::script, at, at);
  if (seat_ != nullptr && seat_->turn == GuestSeat::Turn::script) {
    busy_since_s_ = at;  // with the answer of an earlier worker
    deps_.ledger->compute(at);
  }
  ask();
}

/// The script has asked or has gone.
void GuestWorker::computed() {
  if (busy_since_s_ == kNever) return;
  busy_s_ += deps_.clock.now() - std::exchange(busy_since_s_, kNever);
  ++spells_;
}

void GuestWorker::ask() {
  const bool turn = seat_ != nullptr && seat_->turn == GuestSeat::Turn::rank;
  if (turn && paused_) deps_.ledger->stand(Lost::pause, deps_.clock.now(), paused_at_s_);
  if (!turn || !started_ || paused_ || asked_) return;
  computed();
  if (seat_->steps && over()) return answer();
  asked_ = true;
  if (seat_->steps && !draining_) {
    const uint64_t held = deps_.pool ? seat_->optimizer_steps : 1;
    deps_.ledger->computed(deps_.clock.now(), held);
    if (deps_.pool) {
      deps_.pool->took(held - std::min(held, std::exchange(seat_->counted, 0)));
      deps_.counters->progress.store(deps_.pool->progress(deps_.clock.now()),
                                     std::memory_order_relaxed);
    }
    deps_.counters->gradients.fetch_add(held, std::memory_order_relaxed);
    // The sum of losses within the range of fp32 cannot overflow.
    const bool tells = std::abs(seat_->loss) <= double{std::numeric_limits<float>::max()};
    if (tells) deps_.counters->add_loss(seat_->loss);
    deps_.counters->silent.fetch_add(held - (tells ? 1 : 0), std::memory_order_relaxed);
  }
  step_open_ = step_open_ || seat_->steps;
  send(deps_.state, TakeStep{deps_.rank, seat_});
  if (deps_.pool) deps_.pool->await_no_longer(seat_.get());
}

void GuestWorker::on_parameters(Parameters& p) {
  (p.seat == nullptr ? resting_ : step_open_) = false;
  if (p.seat == nullptr) return rest();
  if (paused_) return void(held_ = std::move(p));
  has_begun_ = true;
  gradients_ = p.gradients;
  exchanges_ = p.exchanges;
  if (share_ > 0 && gradients_ >= share_ && finished_s_ == kNever)
    table_->take_step_left() ? void(share_ = gradients_ + 1) : finish();
  if (deps_.pool && deps_.pool->is_complete()) finish();
  if (p.seat == seat_) go_on();  // else its script has gone
  rest();
}

// Answers the script, unless all gradients are taken, as far as known.
void GuestWorker::go_on() {
  const double now = deps_.clock.now();
  waits_for_work_ = deps_.pool && !over() && deps_.pool->is_enough(now);
  if (!waits_for_work_) return answer();
  deps_.ledger->wait(now);
  scheduled_send(caf::actor_cast<GuestWorkerActor>(this), deps_.clock.instant(now + kLookAgain_s),
                 Tick{});
}

void GuestWorker::answer() {
  asked_ = false;
  busy_since_s_ = deps_.clock.now();
  over() ? deps_.ledger->wait(busy_since_s_) : deps_.ledger->compute(busy_since_s_);
  seat_->turn = GuestSeat::Turn::script;
  seat_->answer({gradients_, exchanges_, over()});
}

void GuestWorker::finish() {
  if (finished_s_ < kNever) return;
  finished_s_ = deps_.clock.now();
  deps_.ledger->wait(finished_s_);
  const uint64_t done = std::max(gradients_, deps_.resumed_at);
  if (share_ > done) table_->leave_steps(share_ - done);
  send(deps_.node, Finished{deps_.rank, rests_});
  if (!rests_) return;
  scheduled_send(caf::actor_cast<GuestWorkerActor>(this),
                 deps_.clock.instant(finished_s_ + kRests_s), Tick{});
}

void GuestWorker::rest() {
  if (!rests_ || finished_s_ == kNever || !started_ || paused_ || draining_) return;
  if (step_open_ || resting_ || deps_.clock.now() < finished_s_ + kRests_s) return;
  resting_ = true;
  send(deps_.state, Gradient{.rank = deps_.rank, .lr = 1, .g = {}});
}

WorkerReport GuestWorker::report() const {
  const double now = std::min(finished_s_, deps_.clock.now());
  const double busy = busy_s_ + std::max(0.0, now - busy_since_s_);
  const double alive = now - born_s_;
  const double usual_s = busy_s_ / static_cast<double>(std::max<uint64_t>(1, spells_));
  const bool stands = spells_ > 0 && deps_.clock.now() - busy_since_s_ > kStands * usual_s;
  return {deps_.rank,       gradients_, std::max(0.0, alive - busy), alive, stands,
          deps_.resumed_at, has_begun_};
}

void GuestWorker::obey(Order order) {
  switch (order) {
    case Order::pause:
      paused_ = true;
      paused_at_s_ = deps_.clock.now();
      if (asked_) deps_.ledger->stand(Lost::pause, paused_at_s_, paused_at_s_);
      return;
    case Order::resume:
      paused_ = false;
      deps_.ledger->back(deps_.clock.now());
      if (held_.seat) on_parameters(held_);
      held_ = {};
      rest();
      return ask();
    case Order::drain:
    case Order::leave: draining_ = true;
  }
}

GuestWorker::behavior_type GuestWorker::make_behavior() {
  return {
      [this](Parameters& p) { on_parameters(p); },
      [this](const Computed&) { ask(); },  // the seat has the request
      [this](Start) {
        started_ = true;
        born_s_ = deps_.clock.now();
        rest();
        ask();
      },
      [this](Tick) {
        if (waits_for_work_ && !paused_) {
          if (deps_.pool->is_complete()) finish();
          go_on();
        }
        rest();
      },
      [this](Order order) { obey(order); },
      [this](Report) { return report(); },
      [this](Seated& now) { seated(now); },
      [this](GuestFinished) { finish(); },
  };
}

void GuestWorker::on_exit() {
  deps_ = {.clock = deps_.clock,
           .settings = {},
           .pool = {},
           .compute = {},
           .counters = {},
           .ledger = {},
           .state = {},
           .node = {}};
  table_.reset();
  seat_.reset();
  held_ = {};
}

}  // namespace grapevine
