#include "actors/topology_manager.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "actors/algorithms/choose.hpp"
#include "topologies/trees.hpp"

namespace grapevine {

namespace {

constexpr double kEdgePrior = 10;  // exchanges that the wanted rate weighs as
constexpr double kGradientPrior = 2;
constexpr double kMoved = 0.1;       // of a rate, before constants are solved for again
constexpr double kEdgeWindow = 200;  // gradient times after which half of a window is forgotten
constexpr double kGradientWindow = 30;
constexpr double kLeastRenewal_s = 0.1;  // on the wall clock

bool moved(const std::vector<double>& now, const std::vector<double>& before) {
  if (now.size() != before.size()) return true;
  for (size_t k = 0; k < now.size(); ++k)
    if (std::abs(now[k] - before[k]) > kMoved * before[k]) return true;
  return false;
}

}  // namespace

TopologyManager::TopologyManager(caf::actor_config& config, ManagerWiring wiring)
    : TopologyManagerActor::base(config),
      wiring_(std::move(wiring)),
      spec_(wiring_.settings->topology),
      gradient_s_(wiring_.gradient_s) {}

// --- measuring

void TopologyManager::Measured::add(uint64_t total, double elapsed_s, double window_s) {
  count += static_cast<double>(total >= seen ? total - seen : total);  // less: it began anew
  time_s += elapsed_s;
  seen = total;
  if (time_s > window_s) count /= 2, time_s /= 2;
}

double TopologyManager::Measured::rate(double expected, double prior) const {
  return (count + prior) / (time_s + prior / expected);
}

std::vector<double> TopologyManager::gradient_rates() const {
  std::vector<double> rates;
  for (const int rank : ranks_) {
    const auto found = gradients_.find(rank);
    const double expected = 1 / gradient_s_;
    rates.push_back(found == gradients_.end() ? expected
                                              : found->second.rate(expected, kGradientPrior));
  }
  return rates;
}

bool TopologyManager::measures() const {
  return wiring_.settings->pairing == Pairing::free || wiring_.settings->clock == Clock::wall;
}

std::vector<double> TopologyManager::measured_rates() const {
  std::vector<double> rates = wanted_;
  if (wiring_.settings->pairing == Pairing::poisson) return rates;
  for (size_t k = 0; k < rates.size(); ++k) {
    const Edge& e = graph_.edges()[k];
    const auto found =
        edges_.find({ranks_[static_cast<size_t>(e.i)], ranks_[static_cast<size_t>(e.j)]});
    if (found != edges_.end()) rates[k] = found->second.rate(wanted_[k], kEdgePrior);
  }
  return rates;
}

void TopologyManager::renew() {
  if (awaited_reports_ > 0 || graph_.ranks() < 2) return;
  const double now = wiring_.clock.now();
  elapsed_s_ = now - renewed_at_s_;
  renewed_at_s_ = now;
  for (const int rank : ranks_) {
    const Member& member = members_[static_cast<size_t>(rank)];
    if (!member.in_graph) continue;
    ++awaited_reports_;
    request(member.communicator, caf::infinite, Report{})
        .then(
            [this](const CommunicatorReport& report) {
              for (const EdgeCount& e : report.edges) {
                if (report.rank > e.peer) continue;  // the lower rank counts
                edges_[{report.rank, e.peer}].add(
                    e.applied, elapsed_s_, kEdgeWindow * gradient_s_ / wiring_.settings->rate);
              }
              on_reports();
            },
            [this](const caf::error&) { on_reports(); });
    if (!member.worker) continue;
    ++awaited_reports_;
    request(member.worker, caf::infinite, Report{})
        .then(
            [this, rank](const WorkerReport& report) {
              gradients_[rank].add(report.gradients, elapsed_s_, kGradientWindow * gradient_s_);
              on_reports();
            },
            [this](const caf::error&) { on_reports(); });
  }
}

void TopologyManager::on_reports() {
  if (--awaited_reports_ > 0) return;
  const std::vector<double> g = gradient_rates();
  gradient_s_ = static_cast<double>(g.size()) / std::accumulate(g.begin(), g.end(), 0.0);
  const std::vector<double> wanted = wanted_rates(graph_, wiring_.settings->rate, g);
  const bool wants_change = moved(wanted, wanted_);
  if (wants_change) wanted_ = wanted;
  if (std::vector<double> rates = measured_rates(); wants_change || moved(rates, solved_rates_))
    solve(std::move(rates));
  const double least = wiring_.settings->clock == Clock::wall ? kLeastRenewal_s : 0;
  const double now = wiring_.clock.now();
  const double wait = std::max({2 * gradient_s_, least, 0.05 * (now - epoch_at_s_)});
  scheduled_send(caf::actor_cast<TopologyManagerActor>(this), wiring_.clock.instant(now + wait),
                 Renew{});
}

// --- epochs

std::vector<int> TopologyManager::live() const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < members_.size(); ++rank)
    if (members_[rank].in_graph) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

// A spec that does not fit the live ranks (an exponential graph of 15) is stood in for by a ring of
// them.
Topology TopologyManager::build(const std::vector<int>& members) const {
  const auto n = static_cast<int>(members.size());
  if (auto graph = make_topology(spec_, n, wiring_.settings->rate)) return std::move(*graph);
  auto ring = make_topology("ring", n, wiring_.settings->rate);
  GV_CHECK(static_cast<bool>(ring));
  return std::move(*ring);
}

void TopologyManager::begin_epoch() {
  ranks_ = live();
  if (ranks_.empty()) return;
  ++epoch_;
  epoch_at_s_ = wiring_.clock.now();
  announced_ = false;
  graph_ = build(ranks_);
  colours_ = edge_colouring(graph_);
  wanted_ = wanted_rates(graph_, wiring_.settings->rate, gradient_rates());
  weigh();
  for (auto& [edge, measured] : edges_)
    measured.count = measured.time_s = 0;
  solve(wanted_);
}

// What the round methods go by. Weights that do not fit the live ranks give way to Metropolis'.
void TopologyManager::weigh() {
  const Method& method = method_named(wiring_.settings->method);
  weights_ = {};
  relay_delay_ = 0;
  if (method.pattern != Pattern::rounds || graph_.ranks() < 2) return;
  auto given = gossip_matrix(wiring_.settings->weights, graph_);
  if (!given) given = gossip_matrix("metropolis", graph_);
  GV_CHECK(static_cast<bool>(given));
  weights_ = std::move(*given);
  const int trees = method.relays ? tree_count(graph_) : 0;
  for (int k = 0; k < trees; ++k)
    relay_delay_ += mean_relay_delay(tree_of(graph_, k)) / trees;
}

void TopologyManager::solve(std::vector<double> rates) {
  auto job = std::make_shared<Solved>();
  job->serial = ++serial_;
  job->rates = std::move(rates);
  const auto self = caf::actor_cast<TopologyManagerActor>(this);
  const bool corrected = wiring_.settings->pairing == Pairing::free;
  wiring_.compute->post([job, graph = graph_, self, corrected](int) {
    if (graph.ranks() > 1) {
      job->spectrum = spectrum(graph, job->rates);
      job->constants = a2cid2_constants(job->spectrum);
      if (corrected) job->constants = without_repeats(job->constants, graph);
    }
    caf::anon_send(self, SolvedPtr(job));
  });
}

void TopologyManager::on_solved(const Solved& solved) {
  if (solved.serial != serial_) return;
  solved_ = solved;
  solved_rates_ = solved.rates;
  if (!method_named(wiring_.settings->method).accelerated) solved_.constants = {0, 0.5};
  publish();
  if (announced_) return;
  announced_ = true;
  EpochInfo info{epoch_,
                 epoch_at_s_,
                 graph_.name(),
                 graph_.ranks(),
                 solved_.spectrum.chi1,
                 solved_.spectrum.chi2,
                 solved_.constants.eta,
                 solved_.constants.alpha_tilde,
                 relay_delay_};
  for (const ObserverActor& observer : wiring_.observers)
    send(observer, info);
}

void TopologyManager::publish() {
  const Method& method = method_named(wiring_.settings->method);
  const bool everybody = method.pattern == Pattern::collective || method.one_peer;
  for (int place = 0; place < graph_.ranks(); ++place) {
    const Member& member = member_of(ranks_[static_cast<size_t>(place)]);
    auto view = std::make_shared<View>();
    view->epoch = epoch_;
    view->incarnation = member.incarnation;
    view->eta = solved_.constants.eta;
    view->alpha_tilde = solved_.constants.alpha_tilde;
    view->ranks = graph_.ranks();
    view->relay_delay = relay_delay_;
    if (everybody) {
      for (const int rank : ranks_)
        view->ring.push_back({rank, member_of(rank).incarnation, 0, 0});
    } else {
      if (!weights_.self.empty()) view->self_weight = weights_.self[static_cast<size_t>(place)];
      for (const Neighbour& n : graph_.neighbours(place)) {
        const int peer = ranks_[static_cast<size_t>(n.rank)];
        const auto edge = static_cast<size_t>(n.edge);
        const double weight = weights_.edge.empty() ? 0 : weights_.edge[edge];
        view->edges.push_back({peer, member_of(peer).incarnation, wanted_[edge], colours_[edge],
                               weight, graph_.edges()[edge].trees});
      }
    }
    send(member.communicator, ViewPtr(std::move(view)));
  }
}

TopologyManager::behavior_type TopologyManager::make_behavior() {
  return {
      [this](const Founders& founders) {
        for (const RankUp& up : *founders) {
          GV_CHECK(up.rank == static_cast<int>(members_.size()));
          members_.push_back({up.communicator, up.worker, 0, true});
        }
        begin_epoch();
        if (measures()) {
          scheduled_send(caf::actor_cast<TopologyManagerActor>(this),
                         wiring_.clock.instant(wiring_.clock.now() + 2 * gradient_s_), Renew{});
        }
      },
      [this](const Reconfigure& change) -> caf::result<std::string> {
        const auto members = live();
        auto graph = make_topology(change.topology, static_cast<int>(members.size()),
                                   wiring_.settings->rate);
        if (!graph) return caf::make_error(caf::sec::invalid_argument, graph.error().message);
        spec_ = change.topology;
        begin_epoch();
        return "epoch " + std::to_string(epoch_) + ": " + graph->name() + " of " +
               std::to_string(graph->ranks()) + " ranks, " + std::to_string(graph->edges().size()) +
               " edges";
      },
      [this](RankUp& up) {
        Member& member = member_of(up.rank);
        member = {up.communicator, up.worker, member.incarnation + 1, false};
        std::vector<int> with = live();
        with.insert(std::lower_bound(with.begin(), with.end(), up.rank), up.rank);
        const Topology graph = build(with);
        const auto place = std::lower_bound(with.begin(), with.end(), up.rank) - with.begin();
        const auto neighbours = graph.neighbours(static_cast<int>(place));
        return neighbours.empty() ? up.rank : with[static_cast<size_t>(neighbours[0].rank)];
      },
      [this](RankReady ready) {
        member_of(ready.rank).in_graph = true;
        begin_epoch();
      },
      [this](RankDown down) {
        Member& gone = member_of(down.rank);
        if (!gone.in_graph) return;
        gone = {{}, {}, gone.incarnation, false};
        for (const Member& member : members_)
          if (member.in_graph) send(member.communicator, PeerDown{down.rank});
        begin_epoch();
      },
      [this](Renew) { renew(); },
      [this](const SolvedPtr& solved) { on_solved(*solved); },
  };
}

void TopologyManager::on_exit() {
  members_.clear();
  wiring_.compute.reset();
  wiring_.observers.clear();
}

}  // namespace grapevine
