#include "actors/cluster/cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "actors/cluster/find_sources.hpp"
#include "actors/cluster/needed_links.hpp"
#include "actors/settings/alarm.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

namespace {

constexpr double kPoll_s = 0.1;  // the longest time between two calls of consider()
constexpr double kFetchDials_s = 3;
constexpr size_t kGraphMade = 512;

// The member that has each rank, in the order of the graph's places.
std::vector<uint32_t> members_of(const std::vector<MemberTable::Place>& places) {
  std::vector<uint32_t> members;
  for (const MemberTable::Place& place : places)
    members.push_back(place.member);
  return members;
}

}  // namespace

Cluster::Cluster(caf::actor_config& config, ClusterDependencies deps)
    : ClusterActor::base(config), deps_(std::move(deps)), lifecycle_(deps_.lifecycle) {}

// Sends a message that came before ClusterStart to this actor again.
template <class Mail>
void Cluster::again(Mail mail) {
  send(caf::actor_cast<ClusterActor>(this), std::move(mail));
}

// --- the membership and its effects

void Cluster::handle(
    const std::function<void(Membership&, double now, MembershipEffects&)>& event) {
  if (!membership_) return;
  MembershipEffects effects;
  event(*membership_, deps_.clock.now(), effects);
  carry_out(effects);
  consider();
}

template <class... Given>
void Cluster::tell(auto event, const Given&... given) {
  handle(
      [&](Membership& m, double now, MembershipEffects& out) { (m.*event)(now, given..., out); });
}

void Cluster::carry_out(MembershipEffects& effects) {
  for (const auto& [to, packet] : effects.sends)
    parts_.links->send(to, packet);
  for (const std::string& address : effects.dials)
    parts_.links->dial(address);
  for (const std::string& node : effects.closes)
    parts_.links->close(node);
  for (const std::string& line : effects.lines)
    say(line);
  for (const std::string& node : effects.died) {
    ended(node);
    departed(node);
  }
  const double now = deps_.clock.now();
  const size_t nodes = membership_->table().live_count();
  if (effects.changed) rosters_.want(now, nodes);
  if (effects.reborn || effects.ranks_moved) rosters_.want_at_once(now);
  if (membership_->table().digest() != told_digest_) {
    for (const Alarm& over : missed_.look(membership_->table(), now))
      raise(over);
    views_.want(now, nodes);
  }
  publish_what_is_due();
  if (effects.name_taken) name_taken();
  if (effects.ranks_moved && lifecycle_.phase() == RunLifecycle::Phase::training) begin();
  for (const auto& [node, id] : effects.owners)
    parts_.links->know(node, id);
  for (const auto& [node, how] : effects.alarms)
    raise(node, how);
  if (membership_->stopping() && !std::exchange(stops_, true)) {
    say("the run is to stop");
    lifecycle_.stop();
  }
  begin_wanted_mean();
  arm(effects.timer_at);
}

void Cluster::arm(double at) {
  at = std::min({at, deps_.clock.now() + kPoll_s, rosters_.at(), views_.at(), rates_.at()});
  if (timer_.arm(at))
    scheduled_send(caf::actor_cast<ClusterActor>(this), deps_.clock.instant(at), Tick{});
}

void Cluster::on_tick() {
  if (!timer_.rings(deps_.clock.now()) || !membership_) return;
  publish_what_is_due();
  if (fetch_until_s_ < kNever) fetch_from_somebody();
  tell(&Membership::timer);
}

void Cluster::publish_what_is_due() {
  const double now = deps_.clock.now();
  if (rosters_.due(now)) new_roster();
  if (views_.due(now)) tell_members();
  if (rates_.due(now)) tell_rates();
}

/// Tells the transfers which members there are.
void Cluster::tell_members() {
  views_.done(deps_.clock.now());
  told_digest_ = membership_->table().digest();
  tell_work();
  send(parts_.transfers,
       MembersSeen{std::make_shared<const std::vector<Member>>(membership_->members()),
                   membership_->epoch(), membership_->unheard()});
}

void Cluster::new_roster() {
  rosters_.done(deps_.clock.now());
  if (membership_->epoch() == roster_epoch_) return;
  roster_epoch_ = membership_->epoch();
  auto roster = std::make_shared<Roster>();
  roster->epoch = roster_epoch_;
  roster->topology = membership_->spec().topology;
  if (roster->topology != deps_.membership.topology && names_edge_file(roster->topology))
    roster->topology = deps_.membership.topology;
  std::vector<LinkTransport::Place> places;
  const std::vector<MemberTable::Place> all = membership_->table().places();
  for (const MemberTable::Place& place : all) {
    const auto rank = static_cast<int>(place.rank);
    roster->ranks.push_back({rank, place.incarnation});
    places.push_back({rank, place.member == 0 ? "" : membership_->table().at(place.member).node});
  }
  graph_ranks_ = static_cast<int>(places.size());
  deps_.transport->place(std::move(places));
  const std::string topology = roster->topology;
  send(parts_.manager, RosterPtr(std::move(roster)));
  talk_with(all, topology);
}

void Cluster::talk_with(const std::vector<MemberTable::Place>& places,
                        const std::string& topology) {
  // Few nodes are all linked anyway. A graph of many ranks takes some time to make.
  if (membership_->table().live_count() <= kAllLinked + 1 && places.size() > kGraphMade) return;
  const std::vector<uint32_t> others =
      nodes_talked_to(*deps_.settings, topology, members_of(places), 0);
  if (others.size() > kNeighboursAtMost)
    say(
        fmt::format("the ranks here exchange with ranks of {} nodes, but only {} of these are "
                    "linked: use another graph",
                    others.size(), kNeighboursAtMost));
  tell(&Membership::exchange_with, others);
}

// --- the phases of the node

void Cluster::consider() {
  LifecycleEffects effects;
  lifecycle_.consider(deps_.clock.now(), membership_->table(), effects);
  carry_out(effects);
}

void Cluster::carry_out(const LifecycleEffects& effects) {
  if (effects.fetch) fetch();
  if (effects.begin) {
    begin();
    rosters_.want_at_once(deps_.clock.now());
    tell(&Membership::become, true, false);
  }
  if (effects.weigh) {
    send(parts_.transfers, MeasureLeaving{});
    want_mean();
  }
  if (effects.drain) {
    // The node that asked for the stop may die before all others know, so each node that stops
    // repeats it.
    if (stops_) tell(&Membership::stop);
    for (const Member& m : membership_->graph())
      expected_.push_back(m.node);
    send(parts_.node, Finish{});
  }
  if (effects.average) begin_mean({0, ended_.parameters, expected_});
  if (effects.goes_alone) {
    say(fmt::format("{} continue{} to train; the time of the ranks here is over, and they leave",
                    fmt::join(ending_.missing, ", "), ending_.missing.size() == 1 ? "s" : ""));
    ending_.missing.clear();
  }
  if (effects.leave) {
    if (lifecycle_.leaving()) count_lost_weight();
    tell(&Membership::leave);
  }
  if (effects.conclude) conclude();
  if (!effects.failure.empty()) {
    ending_.failure = world_error(effects.failure);
    conclude();
  }
}

void Cluster::begin() {
  const Member& self = membership_->self();
  Begin begin{static_cast<int>(self.first_rank), {}};
  if (fetched_) begin.states.assign(self.ranks, std::exchange(fetched_, {}));
  send(parts_.node, std::move(begin));
}

/// Push-sum: the weight of the ranks here goes with them, so the weights of the others sum to less.
void Cluster::count_lost_weight() {
  for (const RankParameters& p : ended_.parameters)
    ending_.mass_lost += p.counts.push_weight;
  if (ending_.mass_lost > 0)
    say(fmt::format("the ranks here leave with {:.3g} of push-sum's weight", ending_.mass_lost));
}

void Cluster::fetch() {
  fetch_until_s_ = deps_.clock.now() + kFetchDials_s;
  fetch_from_somebody();
}

// Fetches from nodes with a link. If there are none, it dials some first.
void Cluster::fetch_from_somebody() {
  FoundSources found =
      find_sources(membership_->graph(), membership_->self().node,
                   [this](const std::string& node) { return membership_->linked(node); });
  if (!found.dials.empty() && deps_.clock.now() < fetch_until_s_)
    return need_links(found.dials);  // the next poll tries again
  fetch_until_s_ = kNever;
  if (found.sources.empty()) {
    say("no node can give the state of a rank: the ranks here start from the beginning");
    return again(StateCame{});
  }
  send(parts_.transfers, FetchFrom{std::move(found.sources)});
}

void Cluster::need_links(const std::vector<std::string>& nodes) {
  for (const std::string& node : nodes)
    tell(&Membership::need_link, node);
}

bool Cluster::somebody_else() const {
  const MemberTable& table = membership_->table();
  for (uint32_t k = 1; k < table.size(); ++k)
    if (table.live(k)) return true;
  return false;
}

void Cluster::conclude() {
  if (!deps_.done) return;
  for (auto& promise : std::exchange(wanted_, {}))
    promise.deliver(MeanResult{});
  ending_.stopped = ending_.drained && !somebody_else();
  ending_.departures = departures_.kept();
  ending_.lost = missed_.all_lost();
  ending_.left = missed_.all_left();
  std::exchange(deps_.done, {})(std::move(ending_));
}

// --- means

void Cluster::want_mean() { tell(&Membership::want_mean); }

/// Whether the ranks here are in the mean of a snapshot.
bool Cluster::takes_part() const {
  using Phase = RunLifecycle::Phase;
  return lifecycle_.phase() >= Phase::training && lifecycle_.phase() < Phase::averaging;
}

void Cluster::begin_wanted_mean() {
  if (!takes_part()) return;
  if (const auto serial = orders_.wanted(membership_->means_asked())) begin_mean({*serial, {}, {}});
}

void Cluster::begin_mean(BeginMean begin) {
  for (const std::string& node : std::exchange(cut_, {})) {
    if (membership_->linked(node))
      tell(&Membership::unreachable, node, false);
    else
      cut_.insert(node);
  }
  need_links({cut_.begin(), cut_.end()});  // the next mean may reach them
  tell_members();
  send(parts_.transfers, std::move(begin));
}

void Cluster::on_mean(MeanResult& result) {
  if (result.serial == 0) {
    // A node that leaves after it reported its mean has received the reports of all others.
    if (!result.missing.empty()) tell(&Membership::tell_mean, MeanTold{});
    ending_.mean = result.mean;
    ending_.missing = std::move(result.missing);
    ending_.nodes = result.mean ? result.mean->nodes : 0;
    lifecycle_.averaged(ending_.missing);
    return consider();
  }
  const auto [answered, more] = orders_.finished(result.serial);
  for (size_t k = 0; k < answered; ++k, wanted_.pop_front())
    wanted_.front().deliver(result);
  if (more) want_mean();
}

// --- other nodes end

void Cluster::record(Departure d) { say(departures_.record(std::move(d))); }

// An incarnation of the node has ended: the node died, left, or started again.
void Cluster::ended(const std::string& node) {
  const MemberTable& table = membership_->table();
  const MemberState state = table.at(*table.find(node)).state;
  const bool is_over = lifecycle_.phase() > RunLifecycle::Phase::weighing;
  if (state == MemberState::dead && is_over)  // the nodes end one after the other
    return say(fmt::format("{} does not answer any more", node));
  if (state == MemberState::dead) raise(missed_.died(node, deps_.clock.now(), table.live_count()));
  if (state == MemberState::left && !is_over) missed_.left(node);
}

void Cluster::departed(const std::string& node) {
  if (lifecycle_.phase() != RunLifecycle::Phase::training) return;
  const auto index = membership_->table().find(node);
  const Member& m = membership_->table().at(*index);
  if (m.ranks == 0 || m.first_rank == kAnyRank) return;
  const uint64_t number =
      departures_.open(m, graph_ranks_, deps_.clock.now(), parts_.states.size());
  const auto told = [this, number](const StateReport& report) {
    if (auto departure = departures_.told(number, report)) record(*std::move(departure));
  };
  for (const StateActor& state : parts_.states)
    request(state, caf::infinite, Report{}).then(told, [told](const caf::error&) { told({}); });
}

// --- events

// The graph changes once the nodes have received the change.
Result<std::string> Cluster::reconfigure(const std::string& topology) {
  const std::vector<uint32_t> members = members_of(membership_->table().places());
  const auto ranks = static_cast<int>(members.size());
  const auto graph = usable_graph(*deps_.settings, topology, ranks);
  if (!graph) return graph.error();
  if (const Status fits = check_links(*deps_.settings, *graph, members); !fits) return fits.error();
  tell(&Membership::reconfigure, topology);
  return "asked for " + graph->name() + ", which starts when the nodes have received it";
}

void Cluster::on_heard(Heard& heard) {
  if (!membership_) return again(std::move(heard));
  for (const Member& m : heard.packet.news) {  // the membership ignores packets once it has left
    if (!is_over(m)) continue;
    const auto known = membership_->table().find(m.node);
    if (known && membership_->table().live(*known)) lifecycle_.gone(m.node);
  }
  tell(&Membership::packet, heard.node, heard.packet);
  if (!heard.packet.rates.empty()) rates_have_come();
  if (!heard.packet.work.empty()) tell_work();
}

/// Tells the node the work of all others.
void Cluster::tell_work() {
  if (!membership_ || !may_pool(*deps_.settings)) return;
  auto others = std::make_shared<std::vector<MemberWork>>(work_of_others(*membership_));
  if (others->empty()) return;
  const uint64_t self = id_of(membership_->self().key);
  send(parts_.node, WorkHeard{self, membership_->work_before(), std::move(others)});
}

// The rates measured here are used when the others are told them.
void Cluster::rates_have_come() {
  if (!membership_) return;
  const double now = deps_.clock.now();
  rates_.want(now, membership_->table().live_count());
  publish_what_is_due();
  arm(rates_.at());
}

void Cluster::tell_rates() {
  rates_.done(deps_.clock.now());
  send(parts_.manager,
       EdgeRatesPtr(std::make_shared<std::vector<EdgeRate>>(membership_->edge_rates())));
}

void Cluster::suspect(int rank) {
  if (!membership_) return;
  const MemberTable& table = membership_->table();
  for (const uint32_t member : table.by_name()) {
    const Member& m = table.at(member);
    if (member == 0 || is_over(m)) continue;
    if (static_cast<uint32_t>(rank) - m.first_rank >= m.ranks) continue;
    ++suspects_;
    // A copy: the record may move meanwhile.
    return tell(&Membership::suspect, std::string(m.node));
  }
}

NodeStatus Cluster::status() const {
  NodeStatus status = status_of(*membership_);
  status.roster_epoch = roster_epoch_;
  status.departures = departures_.kept();
  status.suspects = suspects_;
  return status;
}

void Cluster::raise(const std::string& liar, const std::string& how) {
  Alarm alarm;
  alarm.what = Alarm::What::liar;
  alarm.at_s = deps_.clock.now();
  alarm.node = liar;
  alarm.is = how;
  alarm.reason = "it runs another program, or attacks the run";
  alarm.advice = "find out who runs it, and give the run another key";
  raise(alarm);
}

void Cluster::raise(const Alarm& alarm) {
  send(parts_.console, Note{(alarm.over ? kAlarmOver : kAlarm) + alarm.line()});
  if (deps_.alarm) deps_.alarm(alarm);
}

void Cluster::say(const std::string& line) {
  send(parts_.console, Note{line});
  if (deps_.say) deps_.say(line);
}

void Cluster::on_start(ClusterStart& start) {
  parts_ = std::move(start);
  deps_.self.address = parts_.links->address();
  deps_.self.key = parts_.links->key();
  membership_.emplace(deps_.self, deps_.membership);
  lifecycle_.start(deps_.clock.now());
  tell(&Membership::start);
}

void Cluster::on_link(LinkUp& up) {
  if (!membership_) return again(std::move(up));
  lifecycle_.met();
  tell(&Membership::link_up, up.peer.node, up.peer.address);
}

void Cluster::on_link(LinkDown& down) {
  if (!membership_) return again(std::move(down));
  const bool goodbye = down.reason == kSaidGoodbye || down.reason == kClosedHere;
  handle([&](Membership& m, double now, MembershipEffects& out) {
    m.link_down(now, down.node, out, goodbye);
  });
}

void Cluster::on_link(DialFailed& failed) {
  if (!membership_) return again(std::move(failed));
  lifecycle_.dial_failed(failed.address, failed.reason, is_final(failed.reason));
  // The process stood still until the others admitted another process with its name. Now none of
  // them accepts its links.
  if (failed.reason == kNameTaken && membership_->alone() &&
      lifecycle_.phase() > RunLifecycle::Phase::joining)
    return name_taken();
  handle([&](Membership& m, double now, MembershipEffects& out) {
    if (failed.refused) m.refused(now, failed.address, out);
  });
}

void Cluster::name_taken() {
  ending_.failure = world_error("another process has taken the name " + membership_->self().node);
  conclude();
}

void Cluster::on_ranks(ShareDone) {
  lifecycle_.share_done();
  tell(&Membership::become, true, true);
}

void Cluster::on_ranks(RunEnded& ended) {
  ended_ = std::move(ended);
  lifecycle_.drained(ended_.failed);
  tell(&Membership::become, true, true);
}

void Cluster::on_ranks(RankLost gone) {
  bool told = false;
  handle([&](Membership& m, double now, MembershipEffects& out) {
    told = m.rank_gone(now, static_cast<uint32_t>(gone.rank), out);
  });
  if (told) return;
  lifecycle_.leave();  // a record cannot hold so many
  if (membership_) consider();
}

// The next of the ranks here, which are all neighbours, or nearly.
int Cluster::neighbour_of(int rank) const {
  const Member& self = membership_->self();
  const uint32_t place = static_cast<uint32_t>(rank) - self.first_rank;
  return static_cast<int>(self.first_rank + (place + 1) % std::max(1u, self.ranks));
}

void Cluster::on_transfers(StateCame& came) {
  if (came.state)
    say(fmt::format("the ranks here start with the state of another rank, after {} gradients",
                    came.state->gradients));
  fetched_ = std::move(came.state);
  lifecycle_.fetched();
  consider();
}

void Cluster::on_transfers(const CannotReach& other) {
  cut_.insert(other.node);
  tell(&Membership::unreachable, other.node, true);
}

void Cluster::on_transfers(const LeftOut& liar) {
  if (liars_.insert(liar.node).second) raise(liar.node, liar.why);
}

void Cluster::on_transfers(const LeavingMeasured& measured) {
  if (measured.here > 0)
    record({membership_->self().node, true, measured.here, measured.of, deps_.clock.now(),
            measured.mean_changed_by});
  lifecycle_.weighed();
  consider();
}

caf::result<MeanResult> Cluster::on_wanted(WantMean) {
  if (!takes_part()) return caf::make_error(caf::sec::invalid_argument, "no ranks are here");
  const MeanOrders::Asked asked = orders_.ask();
  if (asked == MeanOrders::Asked::refused)
    return caf::make_error(caf::sec::invalid_argument, "too many consoles wait for a snapshot");
  const auto promise = make_response_promise<MeanResult>();
  wanted_.push_back(promise);
  if (asked == MeanOrders::Asked::first) want_mean();
  return promise;
}

Cluster::behavior_type Cluster::make_behavior() {
  return {
      [this](ClusterStart& start) { on_start(start); },
      [this](LinkUp& up) { on_link(up); },
      [this](LinkDown& down) { on_link(down); },
      [this](DialFailed& failed) { on_link(failed); },
      [this](const Contested& name) { tell(&Membership::suspect, name.node); },
      [this](Heard& heard) { on_heard(heard); },
      [this](ShareDone done) { on_ranks(done); },
      [this](const OwnWork& own) {
        handle([&](Membership& m, double now, MembershipEffects& out) {
          const auto [taken, per_second, counted_s] = own;
          m.work(now, {0, 0, taken, per_second, counted_s, {}}, out);
        });
      },
      [this](RunEnded& ended) { on_ranks(ended); },
      [this](const EdgeRatesPtr& rates) {
        tell(&Membership::rates, *rates);
        rates_have_come();
      },
      [this](const EpochInfo& info) { send(parts_.console, info); },
      [this](Suspected d) { suspect(d.rank); },
      [this](Finish) {
        lifecycle_.stop();
        if (membership_) consider();
      },
      [this](Stop stop) { membership_ ? tell(&Membership::stop) : again(stop); },
      [this](Leave leave) {
        ending_.drained = ending_.drained || leave.drained;
        lifecycle_.leave();
        if (membership_) consider();
      },
      [this](StateCame& came) { on_transfers(came); },
      [this](HasMean has) { tell(&Membership::tell_mean, has.mean); },
      [this](const CannotReach& other) { on_transfers(other); },
      [this](const LeftOut& liar) { on_transfers(liar); },
      [this](const NeedLinks& need) { need_links(need.nodes); },
      [this](MeanResult& result) { on_mean(result); },
      [this](const LeavingMeasured& measured) { on_transfers(measured); },
      [this](Tick) { on_tick(); },
      [this](const Reconfigure& change) -> caf::result<std::string> {
        if (!membership_)  // ClusterStart has not come yet
          return delegate(caf::actor_cast<ClusterActor>(this), change);
        const Result<std::string> done = reconfigure(change.topology);
        if (!done) return caf::make_error(caf::sec::invalid_argument, done.error().message);
        return *done;
      },
      [this](RankLost gone) { on_ranks(gone); },
      [this](RankReturns back) { return neighbour_of(back.rank); },
      [this](RankReady ready) {
        tell(&Membership::rank_returned, static_cast<uint32_t>(ready.rank));
      },
      [this](WantStatus) { return status(); },
      [this](WantMean wanted) { return on_wanted(wanted); },
  };
}

void Cluster::on_exit() {
  deps_.transport.reset();
  deps_.say = {};
  deps_.alarm = {};
  deps_.done = {};
  wanted_.clear();
  parts_ = {};
  membership_.reset();
}

}  // namespace grapevine
