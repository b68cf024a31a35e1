#include "actors/cluster/gateway.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/ops.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

namespace {

constexpr double kPoll_s = 0.1;  // between two looks at what is awaited
constexpr double kMuster_s = 1;  // for the news of who is there, once others have begun
constexpr double kLeave_s = 2;   // for others to fetch what is under way to them

}  // namespace

Gateway::Gateway(caf::actor_config& config, GatewayDependencies deps)
    : GatewayActor::base(config), deps_(std::move(deps)) {}

// --- the membership and what follows from it

// What came before GatewayStart did, which is on its way.
template <class Mail>
void Gateway::again(Mail mail) {
  send(caf::actor_cast<GatewayActor>(this), std::move(mail));
}

void Gateway::handle(const std::function<void(Membership&, MembershipEffects&)>& event) {
  if (!membership_) return;
  MembershipEffects effects;
  event(*membership_, effects);
  carry_out(effects);
  consider();
}

void Gateway::carry_out(MembershipEffects& effects) {
  for (const auto& [to, packet] : effects.sends)
    parts_.links->send(to, packet);
  for (const std::string& address : effects.dials)
    parts_.links->dial(address);
  for (const std::string& line : effects.lines)
    say(line);
  for (const std::string& node : effects.died)
    departed(node);
  if (effects.changed) new_roster();
  if (membership_->facts().stopping && !std::exchange(stopping_, true)) send(parts_.node, Finish{});
  if (effects.ranks_moved && phase_ == Phase::training)
    send(parts_.node, Begin{static_cast<int>(membership_->self().first_rank), {}});
  settle_inheritances();
  arm(effects.timer_at);
}

// A CAF timer cannot be taken back: at most one is under way for the time that is needed first.
void Gateway::arm(double at) {
  wanted_s_ = std::min(at, deps_.clock.now() + kPoll_s);
  if (wanted_s_ >= armed_s_) return;
  armed_s_ = wanted_s_;
  scheduled_send(caf::actor_cast<GatewayActor>(this), deps_.clock.instant(armed_s_), Tick{});
}

void Gateway::new_roster() {
  if (membership_->epoch() == roster_epoch_) return;
  roster_epoch_ = membership_->epoch();
  auto roster = std::make_shared<Roster>();
  roster->epoch = roster_epoch_;
  roster->topology = membership_->spec().topology;
  if (roster->topology != deps_.membership.topology && names_edge_file(roster->topology))
    roster->topology = deps_.membership.topology;
  std::vector<LinkTransport::Place> places;
  for (const MemberTable::Place& place : membership_->table().places()) {
    const auto rank = static_cast<int>(place.rank);
    roster->ranks.push_back({rank, place.incarnation});
    places.push_back({rank, place.member == 0 ? "" : membership_->table().at(place.member).node});
  }
  graph_ranks_ = static_cast<int>(places.size());
  deps_.transport->place(std::move(places));
  send(parts_.manager, RosterPtr(std::move(roster)));
}

void Gateway::tell_rates() {
  if (!membership_) return;
  send(parts_.manager,
       EdgeRatesPtr(std::make_shared<std::vector<EdgeRate>>(membership_->edge_rates())));
}

// --- phases

void Gateway::train(Donation donation) {
  phase_ = Phase::training;
  const Member& self = membership_->self();
  Begin begin{static_cast<int>(self.first_rank), {}};
  if (donation) begin.donations.assign(self.ranks, std::move(donation));
  send(parts_.node, std::move(begin));
  handle([this](Membership& m, MembershipEffects& out) {
    m.become(deps_.clock.now(), true, false, out);
  });
}

bool Gateway::alone() const {
  for (const Member& m : membership_->members())
    if (membership_->linked(m.node)) return false;
  return true;
}

// This process stood still until the others let another of its name in; no one of them links with
// it any more.
void Gateway::name_taken() {
  if (phase_ > Phase::joining)
    fail(world_error("another process has the name " + membership_->self().node + " by now"));
}

bool Gateway::all_finished() const {
  for (const Member& m : membership_->members())
    if (!is_over(m) && m.ranks > 0 && !m.finished) return false;
  return true;
}

void Gateway::muster(double now) {
  const Member& self = membership_->self();
  const bool met = met_ || deps_.membership.join.empty();
  if (!met && now > deadline_s_)
    return fail(world_error("nobody answers at " + deps_.membership.join.front() +
                            (why_nobody_.empty() ? "" : ": " + why_nobody_)));
  if (!met || self.first_rank == kAnyRank || membership_->table().move_to()) return;
  const auto total = static_cast<uint32_t>(deps_.total_ranks);
  uint32_t ranks = 0;
  bool others_train = false, all_live = true;
  for (const Member& m : membership_->members()) {
    all_live &= !is_over(m);
    if (is_over(m)) continue;
    ranks += m.first_rank == kAnyRank ? 0 : m.ranks;  // the others are about to take some
    others_train |= m.ready && m.node != self.node;
  }
  // One of those that all wait for begins at the start, even if the news come late that all are
  // there.
  const bool founds =
      self.incarnation == 1 && all_live && total > 0 && self.first_rank + self.ranks <= total;
  const bool everybody = ranks >= total;
  if (founds && others_train) muster_until_s_ = std::min(muster_until_s_, now + kMuster_s);
  if (!everybody && now < (others_train && !founds ? 0 : std::min(deadline_s_, muster_until_s_)))
    return;
  others_train && !(founds && everybody) ? fetch() : train(nullptr);
}

void Gateway::consider() {
  const double now = deps_.clock.now();
  const Member& self = membership_->self();
  if (phase_ == Phase::joining) {
    muster(now);
  } else if (phase_ == Phase::training) {
    if (!share_done_ || !all_finished()) return;
    phase_ = Phase::ending;
    send(parts_.node, Finish{});
  } else if (phase_ == Phase::trading) {
    if (now < deadline_s_ && awaits_means(now)) return;
    phase_ = Phase::left;
    deadline_s_ = now + kLeave_s;
    handle([&](Membership& m, MembershipEffects& out) { m.leave(now, out); });
  } else if (phase_ == Phase::left) {
    const auto stays = [&](const Member& m) {
      return m.node != self.node && !is_over(m) && membership_->linked(m.node) &&
             gone_.count(m.node) == 0;
    };
    const std::vector<Member> members = membership_->members();
    if (now >= deadline_s_ || std::none_of(members.begin(), members.end(), stays)) conclude();
  }
}

void Gateway::fail(Error error) {
  if (!deps_.done) return;
  GatewayDependencies::Ending ending;
  ending.failure = std::move(error);
  std::exchange(deps_.done, {})(std::move(ending));
}

// --- events

void Gateway::on_said(Said& said) {
  const double now = deps_.clock.now();
  if (!membership_) return again(std::move(said));
  if (const auto* packet = std::get_if<MembershipPacket>(&said.message)) {
    for (const Member& m : packet->news)  // a membership that has left hears no more
      if (phase_ >= Phase::trading && is_over(m)) gone_.insert(m.node);
    handle([&](Membership& m, MembershipEffects& out) { m.packet(now, said.node, *packet, out); });
    if (!packet->rates.empty()) tell_rates();
  } else if (const auto* fetch = std::get_if<FetchState>(&said.message)) {
    if (fetch->what == FetchState::What::node_sum) return give_mean(said.node, fetch->transfer);
    donating([&](Donor& d, DonorEffects& out) { d.fetch(now, said.node, *fetch, out); });
  } else if (const auto* manifest = std::get_if<Manifest>(&said.message)) {
    fetching([&](Fetcher& f, FetcherEffects& out) { f.manifest(now, said.node, *manifest, out); });
  } else if (const auto* receipt = std::get_if<MassReceipt>(&said.message)) {
    on_receipt(said.node, *receipt);
  }
}

void Gateway::on_parcel(ParcelCame& came) {
  if (!membership_) return;
  if (const auto* mean = std::get_if<MeanPiece>(&came.parcel.what)) return take_mean(came, *mean);
  if (std::holds_alternative<PushSumMass>(came.parcel.what)) return inherit(came);
  fetching([&](Fetcher& f, FetcherEffects& out) {
    f.piece(deps_.clock.now(), came.node, std::get<StatePiece>(came.parcel.what),
            came.payload.vec(), out);
  });
}

void Gateway::take_mean(ParcelCame& came, const MeanPiece& mean) {
  const std::vector<Member> members = membership_->members();
  const bool known = std::any_of(members.begin(), members.end(), [&](const Member& m) {
    return m.node == came.node && mean.ranks <= m.ranks;
  });
  const bool whole = mean.way == MeanPiece::Way::down && mean.vector == 0 && mean.offset == 0 &&
                     came.payload.count == deps_.shape.count &&
                     came.payload.dtype == deps_.shape.dtype;
  if (!known || !whole) return;
  Share share{std::move(came.payload), static_cast<int>(mean.ranks)};
  if (mean.mean == kFinal) {
    shares_[came.node] = std::move(share);
    return consider();
  }
  if (mean.mean != snapshot_.transfer || !snapshot_.then) return;
  snapshot_.shares[came.node] = std::move(share);
  if (--snapshot_.awaited == 0) snapshot_done();
}

void Gateway::on_tick() {
  const double now = deps_.clock.now();
  armed_s_ = kNever;
  if (snapshot_.then && now > snapshot_.deadline_s) snapshot_done();
  if (now >= donor_due_s_) donating([&](Donor& d, DonorEffects& out) { d.timer(now, out); });
  if (now >= fetcher_due_s_) fetching([&](Fetcher& f, FetcherEffects& out) { f.timer(now, out); });
  handle([&](Membership& m, MembershipEffects& out) { m.timer(now, out); });
}

Gateway::behavior_type Gateway::make_behavior() {
  auto now = [this] { return deps_.clock.now(); };
  return {
      [=, this](GatewayStart& start) {
        parts_ = std::move(start);
        deps_.self.address = parts_.links->address();
        deps_.self.id = parts_.links->id();
        membership_.emplace(deps_.self, deps_.membership);
        deadline_s_ = now() + deps_.patience_s;
        handle([&](Membership& m, MembershipEffects& out) { m.start(now(), out); });
      },
      [=, this](LinkUp& up) {
        if (!membership_) return again(std::move(up));
        met_ = true;
        handle([&](Membership& m, MembershipEffects& out) {
          m.link_up(now(), up.peer.node, up.peer.address, out);
        });
      },
      [=, this](LinkDown& down) {
        if (!membership_) return again(std::move(down));
        handle([&](Membership& m, MembershipEffects& out) { m.link_down(now(), down.node, out); });
        donor_.node_down(down.node);
        fetching([&](Fetcher& f, FetcherEffects& out) { f.node_down(now(), down.node, out); });
      },
      [this](const TurnedAway& away) { turned_away(away); },
      [this](const BulkEnded& ended) { bulk_ended(ended); },
      [=, this](DialFailed& failed) {
        if (!membership_) return again(std::move(failed));
        why_nobody_ = failed.reason;
        if (failed.reason == kNameTaken && alone()) return name_taken();
        if (!failed.refused) return;
        handle(
            [&](Membership& m, MembershipEffects& out) { m.refused(now(), failed.address, out); });
      },
      [this](Said& said) { on_said(said); },
      [this](Asked& asked) { membership_ ? answer(asked) : again(std::move(asked)); },
      [this](const ConsoleGone& gone) { followers_.erase(gone.console); },
      [this](ParcelCame& came) { on_parcel(came); },
      [=, this](ShareDone) {
        share_done_ = true;
        handle([&](Membership& m, MembershipEffects& out) { m.become(now(), true, true, out); });
      },
      [=, this](RunEnded& ended) {
        own_ = std::move(ended);
        leaving_ = leaving_ || own_.failed;
        trade();
        if (leaving_) return;
        handle([&](Membership& m, MembershipEffects& out) { m.become(now(), true, true, out); });
      },
      [this](const EpochInfo& info) {
        const bool begins = std::exchange(epoch_, info).epoch != info.epoch;
        if (begins)
          note("the graph is " + info.topology + " of " + std::to_string(info.ranks) + " ranks");
      },
      [=, this](const EdgeRatesPtr& rates) {
        handle([&](Membership& m, MembershipEffects& out) { m.rates(now(), *rates, out); });
        tell_rates();  // those measured here are used as they were told to the others
      },
      [this](const Reconfigure& change) -> caf::result<std::string> {
        const Result<std::string> done = reconfigure(change.topology);
        if (!done) return caf::make_error(caf::sec::invalid_argument, done.error().message);
        return *done;
      },
      [=, this](RankLost lost) {
        bool told = true;
        handle([&](Membership& m, MembershipEffects& out) {
          told = m.rank_gone(now(), static_cast<uint32_t>(lost.rank), out);
        });
        if (!told) leave();  // more ranks than a record can tell the others of
      },
      [this](RankReturns back) { return donor_of(back.rank); },
      [=, this](RankReady ready) {
        handle([&](Membership& m, MembershipEffects& out) {
          m.rank_returned(now(), static_cast<uint32_t>(ready.rank), out);
        });
      },
      [this](Finish) { send(parts_.node, Finish{}); },
      [this](Leave) { leave(); },
      [this](Suspected d) { suspect(d.rank); },
      [this](Tick) { on_tick(); },
  };
}

void Gateway::on_exit() {
  deps_.transport.reset();
  deps_.say = {};
  deps_.done = {};
  parts_ = {};
  membership_.reset();
  shares_.clear();
  snapshot_.then = {};
}

}  // namespace grapevine
