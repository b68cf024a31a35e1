#include "actors/topology_manager.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "actors/algorithms/method_registry.hpp"
#include "topologies/trees.hpp"

namespace grapevine {

TopologyManager::TopologyManager(caf::actor_config& config, ManagerDependencies deps)
    : TopologyManagerActor::base(config),
      deps_(std::move(deps)),
      spec_(deps_.settings->topology),
      gradient_s_(deps_.gradient_s) {}

TopologyManager::Member& TopologyManager::member_of(Members& members, int rank) {
  const auto earlier = [](const auto& m, int r) { return m.first < r; };
  const auto at = std::lower_bound(members.begin(), members.end(), rank, earlier);
  if (at != members.end() && at->first == rank) return at->second;
  return members.insert(at, {rank, {}})->second;
}

Topology graph_of(const std::string& spec, int ranks, double rate) {
  if (auto graph = make_topology(spec, ranks, rate)) return std::move(*graph);
  auto ring = make_topology("ring", ranks, rate);
  GV_CHECK(static_cast<bool>(ring));
  return std::move(*ring);
}

void TopologyManager::begin_epoch(uint64_t epoch) {
  ranks_.clear();
  bool anybody_here = false;
  for (const auto& [rank, member] : members_) {
    if (!member.in_graph) continue;
    ranks_.push_back(rank);
    anybody_here = anybody_here || member.communicator;
  }
  epoch_ = epoch;
  epoch_at_s_ = deps_.clock.now();
  told_ = false;
  if (!anybody_here) {  // what is being solved is nobody's any more
    ++serial_;
    graph_ = {};
    wanted_.clear();
    heard_.clear();
    return;
  }
  graph_ = graph_of(spec_, static_cast<int>(ranks_.size()), deps_.settings->rate);
  colours_ = edge_colouring(graph_);
  wanted_ = wanted_rates(graph_, deps_.settings->rate, gradient_rates());
  weigh();
  for (auto& [edge, measured] : edges_)
    measured.count = measured.time_s = 0;
  heard_.clear();  // edges that have left have no rate
  solve(wanted_);
  // Sent after the work has been handed over: what is solved at once is told with its constants.
  send(caf::actor_cast<TopologyManagerActor>(this), TellRoster{epoch_});
}

// A rank that is gone, or born anew, takes what was open with it along.
void TopologyManager::on_roster(const Roster& roster) {
  Members next;
  for (const Roster::Rank& r : roster.ranks) {
    const Member& before = member_of(r.rank);
    member_of(next, r.rank) = {before.communicator, before.worker, r.incarnation, true};
  }
  for (const auto& [rank, before] : members_) {
    if (!before.in_graph) continue;
    const Member& after = member_of(next, rank);
    if (after.in_graph && after.incarnation == before.incarnation) continue;
    for (const auto& [other, member] : members_)
      if (member.communicator && other != rank)
        send(member.communicator, PeerDown{rank, before.incarnation});
  }
  for (const auto& [rank, before] : members_)
    if (before.communicator && !member_of(next, rank).in_graph)
      member_of(next, rank) = {before.communicator, before.worker, before.incarnation, false};
  std::erase_if(next, [](const auto& m) { return !m.second.in_graph && !m.second.communicator; });
  members_ = std::move(next);
  spec_ = roster.topology;
  begin_epoch(roster.epoch);
}

// A rank of the graph whose actors are new has no view of it yet.
void TopologyManager::on_ranks_here(const std::vector<RankActors>& here) {
  Members before = members_;
  for (auto& [rank, member] : members_)
    member.communicator = nullptr, member.worker = nullptr;
  for (const RankActors& r : here) {
    Member& member = member_of(r.rank);
    member.communicator = r.communicator;
    member.worker = r.worker;
  }
  std::erase_if(members_,
                [](const auto& m) { return !m.second.in_graph && !m.second.communicator; });
  const auto unseen = [&](const auto& m) {
    return m.second.in_graph && m.second.communicator &&
           m.second.communicator != member_of(before, m.first).communicator;
  };
  if (std::any_of(members_.begin(), members_.end(), unseen)) begin_epoch(epoch_);
  if (!measures() || std::exchange(renewing_, true)) return;
  scheduled_send(caf::actor_cast<TopologyManagerActor>(this),
                 deps_.clock.instant(deps_.clock.now() + 2 * gradient_s_), Renew{});
}

// What the round methods go by. Weights that do not fit the live ranks give way to Metropolis'.
void TopologyManager::weigh() {
  const Method& method = method_named(deps_.settings->method);
  weights_ = {};
  relay_delay_ = 0;
  if (method.pattern != Pattern::rounds || graph_.ranks() < 2) return;
  auto given = gossip_matrix(deps_.settings->weights, graph_);
  if (!given) given = gossip_matrix("metropolis", graph_);
  GV_CHECK(static_cast<bool>(given));
  weights_ = std::move(*given);
  const int trees = method.relays ? tree_count(graph_) : 0;
  for (int k = 0; k < trees; ++k)
    relay_delay_ += mean_relay_delay(tree_of(graph_, k)) / trees;
}

void TopologyManager::solve(std::vector<double> rates) {
  ++serial_;
  next_rates_ = std::move(rates);
  if (!solving_) solve_next();
}

void TopologyManager::solve_next() {
  solving_ = true;
  auto job = std::make_shared<Solved>();
  job->serial = serial_;
  job->rates = std::move(next_rates_);
  const auto self = caf::actor_cast<TopologyManagerActor>(this);
  const bool corrected = deps_.settings->pairing == Pairing::free;
  deps_.compute->post([job, graph = graph_, self, corrected, spectra = deps_.spectra](int) {
    const auto spectrum = spectra->of(graph, job->rates);
    if (*spectrum && graph.ranks() > 1) {
      const auto constants = a2cid2_constants(**spectrum);
      job->chi1 = (*spectrum)->chi1;
      job->chi2 = (*spectrum)->chi2;
      job->found = static_cast<bool>(constants);
      if (constants) job->constants = corrected ? without_repeats(*constants, graph) : *constants;
    } else {
      job->found = static_cast<bool>(*spectrum);
    }
    caf::anon_send(self, SolvedPtr(job));
  });
}

void TopologyManager::on_solved(const Solved& solved) {
  solving_ = false;
  if (solved.serial != serial_) {
    if (graph_.ranks() > 0) solve_next();
    return;
  }
  solved_rates_ = solved.rates;  // even in vain: it is not tried again for the same ones
  if (solved.found) {
    solved_ = solved;
    solved_at_s_ = deps_.clock.now();
    if (!method_named(deps_.settings->method).accelerated) solved_.constants = {0, 0.5};
  }
  publish();
  tell_constants();
}

void TopologyManager::tell_constants() {
  const EpochInfo info{.epoch = epoch_,
                       .at_s = epoch_at_s_,
                       .solved_at_s = solved_at_s_,
                       .topology = graph_.name(),
                       .ranks = graph_.ranks(),
                       .chi1 = solved_.chi1,
                       .chi2 = solved_.chi2,
                       .eta = solved_.constants.eta,
                       .alpha_tilde = solved_.constants.alpha_tilde,
                       .relay_delay = relay_delay_};
  send(deps_.membership, info);
  if (std::exchange(announced_, epoch_) == epoch_) return;
  for (const ObserverActor& observer : deps_.observers)
    send(observer, info);
}

void TopologyManager::publish() {
  told_ = true;
  for (int place = 0; place < graph_.ranks(); ++place)
    if (const Member& member = member_of(ranks_[static_cast<size_t>(place)]); member.communicator)
      send(member.communicator, view_of(place));
}

ViewPtr TopologyManager::view_of(int place) {
  const Method& method = method_named(deps_.settings->method);
  auto view = std::make_shared<View>();
  view->epoch = epoch_;
  view->incarnation = member_of(ranks_[static_cast<size_t>(place)]).incarnation;
  view->eta = solved_.constants.eta;
  view->alpha_tilde = solved_.constants.alpha_tilde;
  view->ranks = graph_.ranks();
  view->relay_delay = relay_delay_;
  if (!method.goes_by_graph()) {  // with everybody
    for (const int rank : ranks_)
      view->ring.push_back({rank, member_of(rank).incarnation, 0, 0});
    return view;
  }
  if (!weights_.self.empty()) view->self_weight = weights_.self[static_cast<size_t>(place)];
  for (const Neighbour& n : graph_.neighbours(place)) {
    const int peer = ranks_[static_cast<size_t>(n.rank)];
    const auto edge = static_cast<size_t>(n.edge);
    const double weight = weights_.edge.empty() ? 0 : weights_.edge[edge];
    view->edges.push_back({peer, member_of(peer).incarnation, wanted_[edge], colours_[edge], weight,
                           graph_.edges()[edge].trees});
  }
  return view;
}

TopologyManager::behavior_type TopologyManager::make_behavior() {
  return {
      [this](const RanksHere& here) { on_ranks_here(*here); },
      [this](const RosterPtr& roster) { on_roster(*roster); },
      [this](const EdgeRatesPtr& rates) { on_heard_rates(*rates); },
      [this](Renew) { renew(); },
      [this](const SolvedPtr& solved) { on_solved(*solved); },
      [this](TellRoster tell) {
        if (!told_ && tell.epoch == epoch_) publish();
      },
  };
}

void TopologyManager::on_exit() {
  deps_.membership = nullptr;
  members_.clear();
  deps_.compute.reset();
  deps_.spectra.reset();
  deps_.observers.clear();
}

}  // namespace grapevine
