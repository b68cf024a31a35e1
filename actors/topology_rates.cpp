// The rates that a TopologyManager measures, and when it measures them anew.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "actors/topology_manager.hpp"
#include "messages/rate_bounds.hpp"

namespace grapevine {

namespace {

constexpr double kEdgePrior = 10;  // exchanges that the wanted rate weighs as
constexpr double kGradientPrior = 2;
constexpr double kMoved = 0.1;       // of a rate, before constants are solved for again
constexpr double kToldMoved = 0.04;  // of one that all nodes go by: any change that is told
constexpr double kFarOff = 100;      // times the wanted rate, either way: no rate is taken for more
constexpr double kEdgeWindow = 200;  // gradient times after which half of a window is forgotten
constexpr double kGradientWindow = 30;
// On the wall clock; virtual time is cheap, and so may be a hundred thousand ranks in it.
constexpr double kLeastRenewal_s = 0.1, kMostRenewal_s = 2;

bool moved(const std::vector<double>& now, const std::vector<double>& before, double by) {
  if (now.size() != before.size()) return true;
  for (size_t k = 0; k < now.size(); ++k)
    if (std::abs(now[k] - before[k]) > by * before[k]) return true;
  return false;
}

}  // namespace

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
                      std::clamp(rate, kLeastRate, kMostRate), 0});
  }
  send(deps_.membership, EdgeRatesPtr(std::move(rates)));
}

// Of this epoch's graph, if it is in it.
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
  for (const int rank : ranks_) {
    const Member& member = member_of(rank);
    if (!member.in_graph || !member.communicator) continue;
    ++awaited_reports_;
    request(member.communicator, caf::infinite, Report{})
        .then(
            [this](const CommunicatorReport& report) {
              for (const EdgeCount& e : report.edges) {
                if (report.rank > e.peer) continue;  // the lower rank counts
                edges_[{report.rank, e.peer}].add(e.applied, elapsed_s_,
                                                  kEdgeWindow * gradient_s_ / deps_.settings->rate);
              }
              on_reports();
            },
            [this](const caf::error&) { on_reports(); });
    if (!member.worker) continue;
    ++awaited_reports_;
    request(member.worker, caf::infinite, Report{})
        .then(
            [this, rank](const WorkerReport& report) {
              if (!report.stands)
                gradients_[rank].add(
                    report.gradients - std::min(report.gradients, report.resumed_at), elapsed_s_,
                    kGradientWindow * gradient_s_);
              on_reports();
            },
            [this](const caf::error&) { on_reports(); });
  }
  if (awaited_reports_ == 0) wait_to_renew();
}

void TopologyManager::on_reports() {
  if (--awaited_reports_ > 0) return;
  if (graph_.ranks() < 2) return wait_to_renew();  // since it was asked
  const std::vector<double> g = gradient_rates();
  gradient_s_ = static_cast<double>(g.size()) / std::accumulate(g.begin(), g.end(), 0.0);
  const std::vector<double> wanted = wanted_rates(graph_, deps_.settings->rate, g);
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
  const double wait =
      std::max({2 * gradient_s_, least, std::min(most, 0.05 * (now - epoch_at_s_))});
  scheduled_send(caf::actor_cast<TopologyManagerActor>(this), deps_.clock.instant(now + wait),
                 Renew{});
}

}  // namespace grapevine
