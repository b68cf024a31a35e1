#include "actors/cluster/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "actors/cluster/mean_sums.hpp"
#include "actors/guard/guard.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

namespace {

constexpr double kNeedAgain_s = 2;

bool has_rank(const Member& m, uint32_t rank) { return rank - m.first_rank < m.ranks; }

MeanMember seen_by_mean(const Member& m) {
  return {m.node,        m.incarnation, m.first_rank,  m.ranks, is_over(m),
          m.mean.number, m.mean.hash,   m.unreachable, false};
}

// The nodes that take part in a mean, or took part and have left.
std::vector<MeanMember> seen_by_mean(const MembersSeen& seen) {
  std::vector<MeanMember> members;
  for (const Member& m : *seen.all) {
    if (!in_graph(m) && m.state != MemberState::left) continue;
    members.push_back(seen_by_mean(m));
    members.back().is_unheard = std::ranges::find(seen.unheard, m.node) != seen.unheard.end();
  }
  return members;
}

const Member* find(const MembersSeen& members, const std::string& node) {
  if (!members.all) return nullptr;
  for (const Member& m : *members.all)
    if (m.node == node) return &m;
  return nullptr;
}

}  // namespace

Transfers::Transfers(caf::actor_config& config, TransfersDependencies deps)
    : TransfersActor::base(config),
      deps_(std::move(deps)),
      mean_(deps_.self, deps_.mean, deps_.patience_s) {}

// Sends a message that came before TransfersStart to this actor again.
template <class Mail>
void Transfers::again(Mail mail) {
  send(caf::actor_cast<TransfersActor>(this), std::move(mail));
}

void Transfers::arm() {
  const double at =
      std::max(std::min({mean_due_s_, source_due_s_, fetcher_due_s_}), deps_.clock.now());
  if (timer_.arm(at))
    scheduled_send(caf::actor_cast<TransfersActor>(this), deps_.clock.instant(at), Tick{});
}

void Transfers::on_tick() {
  const double now = deps_.clock.now();
  if (!timer_.rings(now)) return;
  if (now >= mean_due_s_)
    averaging([](MeanExchange& m, double t, MeanEffects& out) { m.timer(t, out); });
  if (now >= source_due_s_)
    serving([](StateSource& d, double t, SourceEffects& out) { d.timer(t, out); });
  if (now >= fetcher_due_s_)
    fetching([](Fetcher& f, double t, FetcherEffects& out) { f.timer(t, out); });
  arm();
}

void Transfers::see(const MembersSeen& members) {
  members_ = members;
  averaging([this](MeanExchange& m, double now, MeanEffects& out) {
    m.view(now, seen_by_mean(members_), out);
  });
}

void Transfers::on_said(Said& said) {
  if (!parts_.links) return again(std::move(said));
  if (const auto* ask = std::get_if<MeanAsk>(&said.message)) {
    averaging(
        [&](MeanExchange& m, double now, MeanEffects& out) { m.asked(now, said.node, *ask, out); });
  } else if (const auto* fetch = std::get_if<FetchState>(&said.message)) {
    serving([&](StateSource& d, double now, SourceEffects& out) {
      d.fetch(now, said.node, *fetch, out);
    });
  } else if (const auto* manifest = std::get_if<Manifest>(&said.message)) {
    fetching([&](Fetcher& f, double now, FetcherEffects& out) {
      f.manifest(now, said.node, *manifest, out);
    });
  }
}

void Transfers::on_parcel(ParcelCame& came) {
  if (!parts_.links) return again(std::move(came));
  const ConstVec payload = came.payload.vec();
  if (const auto* piece = std::get_if<MeanPiece>(&came.parcel.what)) {
    averaging([&](MeanExchange& m, double now, MeanEffects& out) {
      m.piece(now, came.node, *piece, payload, out);
    });
  } else if (const auto* state = std::get_if<StatePiece>(&came.parcel.what)) {
    fetching([&](Fetcher& f, double now, FetcherEffects& out) {
      f.piece(now, came.node, *state, payload, out);
    });
  }
}

// --- the mean

void Transfers::averaging(
    const std::function<void(MeanExchange&, double now, MeanEffects&)>& event) {
  MeanEffects out;
  event(mean_, deps_.clock.now(), out);
  mean_due_s_ = out.timer_at;
  if (!parts_.links) return;
  for (const MeanEffects::Ask& ask : out.asks)
    parts_.links->send(ask.to, ask.ask);
  for (MeanEffects::Piece& piece : out.pieces) {
    const ConstVec payload = piece.payload;
    const Lease lease = Lease::of(payload, [keeps = std::move(piece.keeps)] {});
    parts_.links->send_parcel(piece.to, {piece.what, payload.dtype, payload.size},
                              {lease, payload.dtype, payload.size, 0});
  }
  for (const std::string& node : out.cut)
    send(parts_.cluster, CannotReach{node});
  for (const auto& [node, why] : out.left_out)
    send(parts_.cluster, LeftOut{node, why});
  need_links();
  if (out.told) send(parts_.cluster, HasMean{{out.told->first, out.told->second}});
  if (out.result) report(*out.result);
  if (out.sample) sum(*out.sample);
  arm();
}

// The cluster keeps these links for some seconds after each message.
void Transfers::need_links() {
  std::vector<std::string> nodes = mean_.neighbours();
  const double now = deps_.clock.now();
  if (nodes.empty() || (nodes == needed_ && now < needed_at_s_ + kNeedAgain_s)) return;
  needed_ = nodes;
  needed_at_s_ = now;
  send(parts_.cluster, NeedLinks{std::move(nodes)});
}

void Transfers::report(MeanEffects::Result& end) {
  const bool measurable = end.mean && own_ && end.mean->ranks > own_->ranks;
  const bool asked = std::exchange(measures_, false);
  if (asked && !measurable) send(parts_.cluster, LeavingMeasured{});
  if (asked && measurable) {
    // With a of n ranks here, m their mean and M that of all: the others' mean is a (M - m) / (n -
    // a) away from M.
    Buffer difference(deps_.shape.count, deps_.shape.dtype);
    scale({}, 1, end.mean->vectors[0], difference);
    axpy({}, -1, own_->vectors[0], difference);
    const double norm = std::sqrt(dot({}, difference, difference));
    const int here = own_->ranks, of = end.mean->ranks;
    send(parts_.cluster, LeavingMeasured{here, of, norm * here / (of - here)});
  }
  own_.reset();
  send(parts_.cluster,
       MeanResult{ends_ ? 0 : mean_.serial(), std::move(end.mean), std::move(end.missing)});
}

// Starts the sum over the ranks here. At the end of the run it takes their final parameters;
// otherwise it asks the state actors for one rank after the other.
void Transfers::sum(uint64_t number) {
  sum_.emplace(number, deps_.mean);
  to_sum_.clear();
  const Member* self = find(members_, deps_.self);
  const bool is_in = self != nullptr && in_graph(*self);
  const auto first = static_cast<int>(is_in && !ends_ ? self->first_rank : 0);
  const size_t ranks = ends_ ? parameters_.size() : is_in ? self->ranks : 0;
  for (size_t k = 0; k < ranks; ++k)
    to_sum_.push_back(first + static_cast<int>(k));
  sum_next_rank();
}

void Transfers::sum_next_rank() {
  if (to_sum_.empty()) return summed();
  const auto next = static_cast<size_t>(to_sum_.front());
  to_sum_.pop_front();
  if (ends_) return add(parameters_[next]);
  const StateActor& state = parts_.states[next % parts_.states.size()];
  request(state, caf::infinite, ReadRank{static_cast<int>(next)})
      .then([this, number = sum_->number()](const RankParameters& rank) {
        if (!sum_ || sum_->number() != number) return;  // another mean has begun
        rank.x ? add(rank) : sum_next_rank();
      });
}

void Transfers::add(const RankParameters& rank) {
  if (rank.is_apart) {
    deps_.say(fmt::format("rank {} is far from all its neighbours: not in the mean", rank.rank));
    return sum_next_rank();
  }
  std::vector<std::shared_ptr<const Buffer>> vectors{rank.x};
  if (const ParameterLayout& layout = deps_.objective->statistics(); layout.size() > 0) {
    const int shard = rank.rank % deps_.ranks;
    auto statistics = deps_.objective->has_statistics(shard)
                          ? std::make_shared<Buffer>(layout.size(), layout.dtype())
                          : nullptr;
    if (statistics) deps_.objective->read_for_mean(shard, *statistics);
    vectors.push_back(std::move(statistics));
  }
  sum_->add(std::move(vectors), rank.reach);
  again(SumMore{sum_->number()});
}

void Transfers::sum_more(SumMore more) {
  if (!sum_ || sum_->number() != more.mean || !sum_->busy()) return;
  sum_->step();
  sum_->busy() ? again(more) : sum_next_rank();
}

void Transfers::summed() {
  const uint64_t number = sum_->number();
  if (sum_->left_out() > 0)
    deps_.say(fmt::format("{} of the ranks here {} not finite: not in the mean", sum_->left_out(),
                          sum_->left_out() == 1 ? "is" : "are"));
  const auto sum = std::make_shared<MeanSum>(sum_->take());
  sum_.reset();
  if (const int ranks = sum->ranks_in.front(); measures_ && ranks > 0) {
    auto own = std::make_shared<Mean>();
    own->ranks = ranks;
    own->vectors.push_back(mean_of(sum->vectors[0].vec(), ranks, deps_.shape.dtype));
    own_ = std::move(own);
  }
  averaging([number, sum](MeanExchange& m, double now, MeanEffects& out) {
    m.own(now, number, std::move(*sum), out);
  });
}

// --- the state for a new node

void Transfers::fetching(const std::function<void(Fetcher&, double now, FetcherEffects&)>& event) {
  if (!fetcher_) return;
  FetcherEffects out;
  event(*fetcher_, deps_.clock.now(), out);
  for (const FetcherEffects::Ask& ask : out.asks)
    parts_.links->send(ask.to, ask.fetch);
  for (const std::string& line : out.lines)
    deps_.say(line);
  fetcher_due_s_ = out.timer_at;
  arm();
  if (!out.done && !out.failed) return;
  std::shared_ptr<RankState> state;
  if (out.done) {
    state = std::make_shared<RankState>();
    state->gradients = fetcher_->manifest().gradients;
    state->numbers = fetcher_->manifest().numbers;
    state->guard.usual = fetcher_->manifest().usual_step;
    state->vectors = fetcher_->take();
  }
  fetcher_.reset();
  fetcher_due_s_ = kNever;
  send(parts_.cluster, StateCame{std::move(state)});
}

/// Why no rank of this run can have this state, by the limits of divergence (node/observer.hpp).
/// Empty: one can.
std::string Transfers::complaint_about_state(const std::vector<Buffer>& vectors) const {
  constexpr double kSize = 1e6;
  constexpr uint64_t kMost = uint64_t{1} << 48;  // gradients; no rank ever takes so many
  const uint64_t most = deps_.gradients > 0 ? 2 * deps_.gradients : kMost;
  if (const uint64_t taken = fetcher_->manifest().gradients; taken > most)
    return fmt::format("a state after {} gradients, accepted: at most {}", taken, most);
  const ConstVec x = vectors.front().vec();
  Buffer start(x.size, x.dtype);
  deps_.objective->initial_point(0, start);
  const auto size = [](ConstVec v) {
    return std::sqrt(dot({}, v, v) / static_cast<double>(std::max<uint64_t>(1, v.size)));
  };
  const double is = size(x), was = size(start);
  if (is <= kSize * std::max(1.0, was)) return "";
  return fmt::format("parameters of {:.3g}, which began with {:.3g}", is, was);
}

/// Whether the state is farther from the sample of another rank than training explains. The measure
/// is that other rank's distance from the initial point and its usual step, because the source of
/// the state may report anything about itself.
std::string Transfers::doubt_about_state(const std::vector<Buffer>& vectors,
                                         const FetcherOptions::Sample& others) const {
  constexpr double kTimes = 8;
  const ConstVec x = vectors.front().vec();
  Buffer start(x.size, x.dtype);
  deps_.objective->initial_point(0, start);
  double apart = 0, moved = 0, share = 0;
  const auto square_between = [](ConstVec a, ConstVec b) {
    Buffer difference(a.size, a.dtype);
    scale({}, 1, a, difference);
    axpy({}, -1, b, difference);
    return dot({}, difference, difference);
  };
  for (size_t k = 0; k < others.places.size(); ++k) {
    const PiecePlace& at = others.places[k];
    const ConstVec theirs = others.contents[k].vec();
    apart += square_between(x.part(at.offset, at.count), theirs);
    moved += square_between(theirs, std::as_const(start).vec().part(at.offset, at.count));
    share += static_cast<double>(at.count) / static_cast<double>(x.size);
  }
  const double steps = Guard::kAllowance * others.usual_step * std::sqrt(share);
  const double most = kTimes * (std::sqrt(moved) + steps);
  if (moved == 0 || std::sqrt(apart) <= most) return "";
  return fmt::format("{:.3g} away, accepted: {:.3g}", std::sqrt(apart), most);
}

void Transfers::serving(
    const std::function<void(StateSource&, double now, SourceEffects&)>& event) {
  SourceEffects out;
  event(source_, deps_.clock.now(), out);
  source_due_s_ = out.timer_at;
  if (!parts_.links) return;
  for (const SourceEffects::Reply& r : out.replies)
    parts_.links->send(r.to, r.manifest);
  for (const SourceEffects::Piece& p : out.pieces) {
    const Lease lease = Lease::of(p.payload, [keeps = p.snapshot] {});
    parts_.links->send_parcel(p.to,
                              {StatePiece{p.transfer, p.piece}, p.payload.dtype, p.payload.size},
                              {lease, p.payload.dtype, p.payload.size, 0});
  }
  for (const SourceEffects::Take& take : out.takes)
    take_for(take);
  arm();
}

void Transfers::take_for(const SourceEffects::Take& take) {
  const Member* self = find(members_, deps_.self);
  if (self == nullptr || !in_graph(*self) || !has_rank(*self, take.fetch.rank))
    return give_state(take, nullptr);
  const StateActor& state = parts_.states[take.fetch.rank % parts_.states.size()];
  request(state, caf::infinite, CopyState{static_cast<int>(take.fetch.rank)})
      .then([this, take](const RankStatePtr& copy) { give_state(take, copy); });
}

void Transfers::give_state(const SourceEffects::Take& take, const RankStatePtr& copy) {
  if (copy && !copy->vectors.empty()) {
    Manifest manifest =
        manifest_of(copy->vectors, copy->numbers, take.fetch.transfer, copy->gradients, 1);
    manifest.usual_step = copy->guard.usual_step();
    hashing_.push_back({take.node, SnapshotPtr(copy, &copy->vectors), std::move(manifest)});
    if (hashing_.size() == 1) again(HashMore{});
    return;
  }
  Manifest none;
  none.transfer = take.fetch.transfer;
  none.refused = fmt::format("rank {} is not here", take.fetch.rank);
  serving([&](StateSource& d, double now, SourceEffects& out) {
    d.taken(now, take.node, std::move(none), nullptr, out);
  });
}

void Transfers::hash_more() {
  Hashing& first = hashing_.front();
  if (hash_next(*first.snapshot, first.manifest) > 0) return again(HashMore{});
  Hashing done = std::move(first);
  hashing_.pop_front();
  if (!hashing_.empty()) again(HashMore{});
  serving([&](StateSource& d, double now, SourceEffects& out) {
    d.taken(now, done.node, std::move(done.manifest), std::move(done.snapshot), out);
  });
}

Transfers::behavior_type Transfers::make_behavior() {
  return {
      [this](TransfersStart& start) { parts_ = std::move(start); },
      [this](const LinkUp& up) {
        averaging([&](MeanExchange& m, double now, MeanEffects& out) {
          m.linked(now, up.peer.node, true, out);
        });
      },
      [this](const LinkDown& down) {
        averaging([&](MeanExchange& m, double now, MeanEffects& out) {
          m.linked(now, down.node, false, out);
        });
        source_.node_down(down.node);
        fetching(
            [&](Fetcher& f, double now, FetcherEffects& out) { f.node_down(now, down.node, out); });
      },
      [this](Said& said) { on_said(said); },
      [this](ParcelCame& came) { on_parcel(came); },
      [this](const MembersSeen& members) { see(members); },
      [this](const FetchFrom& from) {
        FetcherOptions options;
        options.shape = deps_.shape;
        options.sources = from.sources;
        options.complaint = [this](const std::vector<Buffer>& vectors) {
          return complaint_about_state(vectors);
        };
        options.doubt = [this](const std::vector<Buffer>& vectors,
                               const FetcherOptions::Sample& others) {
          return doubt_about_state(vectors, others);
        };
        fetcher_.emplace(options);
        fetching([](Fetcher& f, double now, FetcherEffects& out) { f.start(now, out); });
      },
      [this](BeginMean& begin) {
        if (begin.serial == 0) {
          ends_ = true;
          parameters_ = std::move(begin.parameters);
        }
        averaging([&](MeanExchange& m, double now, MeanEffects& out) {
          begin.serial == 0 ? m.end(now, begin.expected, out) : m.want(now, begin.serial, out);
        });
      },
      [this](WantRefused) { return Refused{mean_.refused()}; },
      [this](SumMore more) { sum_more(more); },
      [this](HashMore) { hash_more(); },
      [this](MeasureLeaving) { measures_ = true; },
      [this](Tick) { on_tick(); },
  };
}

void Transfers::on_exit() {
  deps_.say = {};
  deps_.objective.reset();
  parts_ = {};
}

}  // namespace grapevine
