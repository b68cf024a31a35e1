// The rates that a TopologyManager measures, and when it measures them anew.
#include <cmath>
#include <numeric>

#include "actors/topology_manager.hpp"

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
    const auto found = edges_.find(ends);
    if (found != edges_.end()) {
      rates[k] = found->second.rate(wanted_[k], kEdgePrior);
    } else if (const auto heard = heard_.find(ends); heard != heard_.end()) {
      rates[k] = heard->second;
    }
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
    rates->push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(j),
                      found->second.rate(wanted_[k], kEdgePrior), 0});
  }
  send(deps_.membership, EdgeRatesPtr(std::move(rates)));
}

void TopologyManager::on_heard_rates(const std::vector<EdgeRate>& rates) {
  for (const EdgeRate& rate : rates)
    heard_[{static_cast<int>(rate.i), static_cast<int>(rate.j)}] = rate.per_second;
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
              gradients_[rank].add(report.gradients, elapsed_s_, kGradientWindow * gradient_s_);
              on_reports();
            },
            [this](const caf::error&) { on_reports(); });
  }
  if (awaited_reports_ == 0) wait_to_renew();
}

void TopologyManager::on_reports() {
  if (--awaited_reports_ > 0) return;
  const std::vector<double> g = gradient_rates();
  gradient_s_ = static_cast<double>(g.size()) / std::accumulate(g.begin(), g.end(), 0.0);
  const std::vector<double> wanted = wanted_rates(graph_, deps_.settings->rate, g);
  const bool wants_change = moved(wanted, wanted_);
  if (wants_change) wanted_ = wanted;
  tell_rates();
  if (std::vector<double> rates = measured_rates(); wants_change || moved(rates, solved_rates_))
    solve(std::move(rates));
  wait_to_renew();
}

void TopologyManager::wait_to_renew() {
  const double least = deps_.settings->clock == Clock::wall ? kLeastRenewal_s : 0;
  const double now = deps_.clock.now();
  const double wait = std::max({2 * gradient_s_, least, 0.05 * (now - epoch_at_s_)});
  scheduled_send(caf::actor_cast<TopologyManagerActor>(this), deps_.clock.instant(now + wait),
                 Renew{});
}

}  // namespace grapevine
