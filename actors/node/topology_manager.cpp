#include "actors/node/topology_manager.hpp"

#include <algorithm>
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "messages/rate_bounds.hpp"
#include "topologies/trees.hpp"

namespace grapevine {

namespace {

constexpr double kEdgePrior = 10;  // the weight of the wanted rate, in exchanges
constexpr double kStepPrior = 2;
// The relative change of a rate after which the constants are computed again.
constexpr double kMoved = 0.1;
constexpr double kToldMoved = 0.04;  // the same, for rates that all nodes share
// No rate counts as more than this many times above or below the wanted one.
constexpr double kFarOff = 100;
constexpr double kEdgeWindow = 200;  // in expected exchanges of a rank; a longer window is halved
constexpr double kStepWindow = 30;   // in steps
// On the wall clock. In virtual time a renewal costs no time, and there may be 100,000 ranks.
constexpr double kLeastRenewal_s = 0.1, kMostRenewal_s = 2;
constexpr size_t kAskedAtOnce = 256;  // ranks and workers that are asked for their counts

bool moved(const std::vector<double>& now, const std::vector<double>& before, double by) {
  if (now.size() != before.size()) return true;
  for (size_t k = 0; k < now.size(); ++k)
    if (std::abs(now[k] - before[k]) > by * before[k]) return true;
  return false;
}

}  // namespace

TopologyManager::TopologyManager(caf::actor_config& config, ManagerDependencies deps)
    : TopologyManagerActor::base(config),
      deps_(std::move(deps)),
      spec_(deps_.settings->topology),
      step_s_(deps_.step_s) {}

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
  if (!anybody_here) {  // nobody here needs the spectrum that is being computed
    ++serial_;
    graph_ = {};
    wanted_.clear();
    heard_.clear();
    return;
  }
  graph_ = graph_of(spec_, static_cast<int>(ranks_.size()), deps_.settings->rate);
  colours_ = edge_colouring(graph_);
  wanted_ = wanted_rates(graph_, deps_.settings->rate, step_rates());
  weigh();
  for (auto& [edge, measured] : edges_)
    measured.count = measured.time_s = 0;
  heard_.clear();  // new edges have no rate yet
  solve(wanted_);
  // Sent after solve(), so that a spectrum that is ready at once is announced with its constants.
  send(caf::actor_cast<TopologyManagerActor>(this), TellRoster{epoch_});
}

// If a rank is gone or has a new incarnation, what was open with the old one ends.
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

// A rank of the graph with new actors has no view of it yet.
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
                 deps_.clock.instant(deps_.clock.now() + 2 * step_s_), Renew{});
}

// The weights of the round methods. If they do not fit the live ranks, Metropolis' weights replace
// them.
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
  // Also if none was found, so that it is not tried again for the same rates.
  solved_rates_ = solved.rates;
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
  if (!method.goes_by_graph()) {  // it exchanges with all
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

// --- the rates that are measured, and when

void TopologyManager::Measured::add(uint64_t total, double elapsed_s, double window_s) {
  count += static_cast<double>(total >= seen ? total - seen : total);  // less: it began again
  time_s += elapsed_s;
  seen = total;
  if (time_s > window_s) count /= 2, time_s /= 2;
}

double TopologyManager::Measured::rate(double expected, double prior) const {
  return (count + prior) / (time_s + prior / expected);
}

// If the time of a step is not known, a rank that has taken no step in T seconds needs at least T
// for one.
double TopologyManager::step_rate(const Measured& measured) const {
  if (deps_.step_is_known) return measured.rate(1 / step_s_, kStepPrior);
  return std::max(1.0, measured.count) / std::max(measured.time_s, deps_.step_s);
}

std::vector<double> TopologyManager::step_rates() const {
  std::vector<double> rates;
  for (const int rank : ranks_) {
    const auto found = steps_.find(rank);
    rates.push_back(found == steps_.end() ? 1 / step_s_ : step_rate(found->second));
  }
  return rates;
}

// A node measures its own ranks only. A rank of another node counts as the mean rank here: at once
// if a guess is all that is known of it, else it approaches that mean.
std::vector<double> TopologyManager::renewed_step_rates() {
  std::vector<double> rates = step_rates();
  const auto counts = [this](size_t place) {
    return deps_.step_is_known || steps_.contains(ranks_[place]);
  };
  double sum = 0, counted = 0;
  for (size_t k = 0; k < rates.size(); ++k)
    if (counts(k)) sum += rates[k], ++counted;
  if (counted == 0) return rates;
  step_s_ = counted / sum;
  for (size_t k = 0; k < rates.size(); ++k)
    if (!counts(k)) rates[k] = 1 / step_s_;
  return rates;
}

bool TopologyManager::measures() const {
  return deps_.settings->pairing == Pairing::free || deps_.settings->clock == Clock::wall;
}

std::vector<double> TopologyManager::measured_rates() const {
  std::vector<double> rates = wanted_;
  if (deps_.settings->pairing == Pairing::poisson) return rates;
  for (size_t k = 0; k < rates.size(); ++k) {
    const Edge& e = graph_.edges()[k];
    const std::pair ends{ranks_[static_cast<size_t>(e.i)], ranks_[static_cast<size_t>(e.j)]};
    if (!heard_.empty() && heard_[k] > 0)
      rates[k] = heard_[k];
    else if (const auto found = edges_.find(ends); found != edges_.end())
      rates[k] = found->second.rate(wanted_[k], kEdgePrior);
    rates[k] = std::clamp(rates[k], wanted_[k] / kFarOff, wanted_[k] * kFarOff);
  }
  return rates;
}

void TopologyManager::tell_rates() {
  auto rates = std::make_shared<std::vector<EdgeRate>>();
  for (size_t k = 0; k < wanted_.size(); ++k) {
    const Edge& e = graph_.edges()[k];
    const int i = ranks_[static_cast<size_t>(e.i)], j = ranks_[static_cast<size_t>(e.j)];
    const auto found = edges_.find({i, j});
    if (found == edges_.end()) continue;
    const double rate = found->second.rate(wanted_[k], kEdgePrior);
    rates->push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(j),
                      std::clamp(rate, kLeastRate, kMostRate)});
  }
  send(deps_.membership, EdgeRatesPtr(std::move(rates)));
}

// The index of the edge, if it is in the graph of this epoch.
std::optional<size_t> TopologyManager::edge_of(const EdgeRate& rate) const {
  const auto place_of = [this](uint32_t rank) {
    const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), static_cast<int>(rank));
    return at != ranks_.end() && *at == static_cast<int>(rank) ? at - ranks_.begin() : -1;
  };
  const std::pair ends{place_of(rate.i), place_of(rate.j)};
  const auto earlier = [](const Edge& e, const auto& other) {
    return std::pair<ptrdiff_t, ptrdiff_t>(e.i, e.j) < other;
  };
  const auto& edges = graph_.edges();
  const auto at = std::lower_bound(edges.begin(), edges.end(), ends, earlier);
  if (at == edges.end() || at->i != ends.first || at->j != ends.second) return std::nullopt;
  return static_cast<size_t>(at - edges.begin());
}

void TopologyManager::on_heard_rates(const std::vector<EdgeRate>& rates) {
  for (const EdgeRate& rate : rates) {
    const auto edge = edge_of(rate);
    if (!edge || std::isnan(rate.per_second)) continue;
    const double wanted = wanted_[*edge];
    heard_.resize(wanted_.size());
    heard_[*edge] = std::clamp(rate.per_second, wanted / kFarOff, wanted * kFarOff);
  }
}

void TopologyManager::renew() {
  if (awaited_reports_ > 0) return;
  if (graph_.ranks() < 2) return wait_to_renew();
  const double now = deps_.clock.now();
  elapsed_s_ = now - renewed_at_s_;
  renewed_at_s_ = now;
  for (const int rank : ranks_)
    if (const Member& member = member_of(rank); member.in_graph && member.communicator)
      to_ask_.push_back({rank, member.communicator, member.worker});
  std::reverse(to_ask_.begin(), to_ask_.end());
  ask_some();
  if (awaited_reports_ == 0) wait_to_renew();
}

// Not all at once: at each answer, CAF searches all answers that the actor waits for.
void TopologyManager::ask_some() {
  while (!to_ask_.empty() && awaited_reports_ < kAskedAtOnce) {
    const Asked next = std::move(to_ask_.back());
    to_ask_.pop_back();
    ++awaited_reports_;
    request(next.communicator, caf::infinite, Report{})
        .then(
            [this](const CommunicatorReport& report) {
              for (const EdgeCount& e : report.edges) {
                // If both ranks are here, the report of the lower one counts.
                if (report.rank > e.peer && member_of(e.peer).communicator) continue;
                edges_[std::minmax(report.rank, e.peer)].add(
                    e.applied, elapsed_s_, kEdgeWindow * step_s_ / deps_.settings->rate);
              }
              on_reports();
            },
            [this](const caf::error&) { on_reports(); });
    if (!next.worker) continue;
    ++awaited_reports_;
    request(next.worker, caf::infinite, Report{})
        .then(
            [this, rank = next.rank](const WorkerReport& report) {
              if (report.has_begun && !report.stands)
                steps_[rank].add(
                    (report.gradients - std::min(report.gradients, report.resumed_at)) /
                        deps_.settings->inner_steps,
                    elapsed_s_, kStepWindow * step_s_);
              on_reports();
            },
            [this](const caf::error&) { on_reports(); });
  }
}

void TopologyManager::on_reports() {
  if (--awaited_reports_ == 0) ask_some();
  if (awaited_reports_ > 0) return;
  if (graph_.ranks() < 2) return wait_to_renew();  // it has shrunk meanwhile
  const std::vector<double> wanted =
      wanted_rates(graph_, deps_.settings->rate, renewed_step_rates());
  const bool wants_change = moved(wanted, wanted_, kMoved);
  if (wants_change) wanted_ = wanted;
  tell_rates();
  std::vector<double> rates = measured_rates();
  const double by = heard_.empty() ? kMoved : kToldMoved;
  if (!solving_ && (wants_change || moved(rates, solved_rates_, by))) solve(std::move(rates));
  wait_to_renew();
}

void TopologyManager::wait_to_renew() {
  const double least = deps_.settings->clock == Clock::wall ? kLeastRenewal_s : 0;
  const double now = deps_.clock.now();
  const double most = deps_.settings->clock == Clock::wall ? kMostRenewal_s : kNever;
  // A step of unknown length may end at any time.
  const double steps_s = deps_.step_is_known ? 2 * step_s_ : 0;
  const double wait = std::max({steps_s, least, std::min(most, 0.05 * (now - epoch_at_s_))});
  scheduled_send(caf::actor_cast<TopologyManagerActor>(this), deps_.clock.instant(now + wait),
                 Renew{});
}

}  // namespace grapevine
