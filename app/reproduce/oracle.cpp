#include "app/reproduce/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "topologies/trees.hpp"

namespace grapevine {

Oracle::Oracle(Objective& problem, std::string method, const Topology& graph,
               const GossipMatrix& matrix)
    : problem_(problem),
      method_(std::move(method)),
      graph_(graph),
      matrix_(matrix),
      ranks_(static_cast<size_t>(graph.ranks())),
      dim_(problem.layout().size()) {
  if (method_ != "relaysgd") return;
  delay_.resize(ranks_ * ranks_);
  size_t longest = 0;
  for (size_t i = 0; i < ranks_; ++i) {
    const std::vector<int> hops = hops_from(graph, static_cast<int>(i));
    for (size_t j = 0; j < ranks_; ++j) {
      delay_[i * ranks_ + j] = static_cast<size_t>(std::max(hops[j] - 1, 0));
      longest = std::max(longest, delay_[i * ranks_ + j]);
    }
  }
  spoken_.resize(longest + 1);
}

void Oracle::restart(double lr) {
  lr_ = lr;
  done_ = 0;
  for (std::vector<double>* v : {&x_, &g_, &c_, &sum_, &mixed_})
    v->assign(ranks_ * dim_, 0);
  for (std::vector<double>& y : spoken_)
    y.assign(ranks_ * dim_, 0);
  mean_.assign(dim_, 0);
}

void Oracle::mix(const std::vector<double>& in, std::vector<double>& out) const {
  for (size_t i = 0; i < ranks_; ++i)
    for (size_t k = 0; k < dim_; ++k)
      out[i * dim_ + k] = matrix_.self[i] * in[i * dim_ + k];
  for (size_t e = 0; e < graph_.edges().size(); ++e) {
    const auto i = static_cast<size_t>(graph_.edges()[e].i) * dim_;
    const auto j = static_cast<size_t>(graph_.edges()[e].j) * dim_;
    for (size_t k = 0; k < dim_; ++k) {
      out[i + k] += matrix_.edge[e] * in[j + k];
      out[j + k] += matrix_.edge[e] * in[i + k];
    }
  }
}

void Oracle::relay() {
  std::vector<double>& now = spoken_[done_ % spoken_.size()];
  for (size_t k = 0; k < now.size(); ++k)
    now[k] = x_[k] - lr_ * g_[k];
  std::fill(x_.begin(), x_.end(), 0.0);
  for (size_t i = 0; i < ranks_; ++i) {
    for (size_t j = 0; j < ranks_; ++j) {
      const size_t late = delay_[i * ranks_ + j];
      if (late > done_) continue;
      const double* y = spoken_[(done_ - late) % spoken_.size()].data() + j * dim_;
      for (size_t k = 0; k < dim_; ++k)
        x_[i * dim_ + k] += y[k] / static_cast<double>(ranks_);
    }
  }
}

void Oracle::round() {
  for (size_t i = 0; i < ranks_; ++i)
    problem_.gradient(0, static_cast<int>(i), done_, ConstVec(&x_[i * dim_], dim_, DType::f64),
                      Vec(&g_[i * dim_], dim_, DType::f64));
  const size_t size = x_.size();
  if (method_ == "relaysgd") {
    relay();
  } else if (method_ == "all_reduce") {
    std::fill(mean_.begin(), mean_.end(), 0.0);
    for (size_t k = 0; k < size; ++k)
      mean_[k % dim_] += (x_[k] - lr_ * g_[k]) / static_cast<double>(ranks_);
    for (size_t k = 0; k < size; ++k)
      x_[k] = mean_[k % dim_];
  } else {
    for (size_t k = 0; k < size; ++k)
      sum_[k] = x_[k] - lr_ * g_[k] + c_[k];
    mix(sum_, mixed_);
    if (method_ == "d2") {
      for (size_t k = 0; k < size; ++k)
        c_[k] = mixed_[k] - x_[k] + lr_ * g_[k];
    } else {
      for (size_t k = 0; k < size; ++k)
        sum_[k] = c_[k] - lr_ * g_[k];
      mix(sum_, c_);
      for (size_t k = 0; k < size; ++k)
        c_[k] += lr_ * g_[k];
    }
    x_.swap(mixed_);
  }
  ++done_;
}

double Oracle::suboptimality() {
  std::fill(mean_.begin(), mean_.end(), 0.0);
  for (size_t k = 0; k < x_.size(); ++k)
    mean_[k % dim_] += x_[k] / static_cast<double>(ranks_);
  return problem_.evaluate(0, -1, ConstVec(mean_.data(), dim_, DType::f64)).loss;
}

std::vector<uint64_t> test_rounds(uint64_t most, int points) {
  std::vector<uint64_t> rounds;
  for (int k = 0; k < points; ++k) {
    const double exponent = std::log2(static_cast<double>(most)) * k / (points - 1);
    const auto round = static_cast<uint64_t>(std::llround(std::exp2(exponent)));
    if (rounds.empty() || round > rounds.back()) rounds.push_back(round);
  }
  return rounds;
}

namespace {

enum class Ending { reached, unstable, plateau, too_slow };

struct Trial {
  Ending ending = Ending::too_slow;
  uint64_t rounds = 0;
};

/// `best`: rounds of the best trial so far, 0: none reached the target; ten times as many is too
/// slow.
Trial attempt(Oracle& oracle, double lr, double target, const std::vector<uint64_t>& tested,
              uint64_t best) {
  oracle.restart(lr);
  uint64_t done = 0;
  std::vector<double> errors;
  for (const uint64_t round : tested) {
    for (; done < round; ++done)
      oracle.round();
    const double error = oracle.suboptimality();
    errors.push_back(error);
    if (error < target) return {Ending::reached, round};
    if (best > 0 && round > 10 * best) return {Ending::too_slow, round};
    const bool rises = errors.size() > 1 && error > errors[errors.size() - 2];
    if (!std::isfinite(error) || rises) return {Ending::unstable, round};
    if (errors.size() < 3) continue;
    const double* last = &errors[errors.size() - 3];
    const double mean = (last[0] + last[1] + last[2]) / 3;
    const bool flat =
        std::all_of(last, last + 3, [&](double e) { return std::abs(e - mean) < target / 10; });
    if (flat) return {Ending::plateau, round};
  }
  return {};
}

}  // namespace

Tuned tune_fastest(Oracle& oracle, double target, double start, uint64_t most_rounds) {
  constexpr int kTrials = 30, kTestPoints = 1000;
  constexpr double kNarrow = 1e-4;
  const std::vector<uint64_t> tested = test_rounds(most_rounds, kTestPoints);
  Tuned best;
  std::optional<double> low;
  double high = 2 * start, lr = high;
  for (int trial = 0; trial < kTrials && (!low || high - *low > kNarrow); ++trial) {
    if (low) lr = (*low + high) / 2;
    const Trial result = attempt(oracle, lr, target, tested, best.rounds);
    const bool better =
        result.ending == Ending::reached && (best.rounds == 0 || result.rounds < best.rounds);
    if (better) best = {result.rounds, lr};
    const bool below =
        result.ending == Ending::too_slow || (result.ending == Ending::reached && !better);
    if (below) {
      low = std::min(lr, high);
      if (result.ending == Ending::reached) high = std::min(4 * lr, high);
      continue;
    }
    if (result.ending != Ending::reached) high = low ? std::max(*low, lr) : lr;
    if (!low) lr /= 2;
  }
  return best;
}

}  // namespace grapevine
