#include "tests/run/simulated_runs.hpp"

#include <malloc.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

namespace grapevine {

Settings gossip(const std::string& topology, int ranks, const std::string& method) {
  Settings s;
  s.clock = Clock::simulated;
  s.method = method;
  s.topology = topology;
  s.ranks = ranks;
  s.pacing = Pacing::poisson;
  s.pairing = Pairing::poisson;
  s.gradients = 0;
  s.sample_s = 0;
  s.target = 1e-3;
  s.objective.objective = "consensus";
  s.objective.dim = 16;
  return s;
}

Settings free_gossip(const std::string& topology, int ranks, double transfer_s) {
  Settings s = gossip(topology, ranks);
  s.pairing = Pairing::free;
  s.link = {0.02, 0.5, transfer_s, 0};
  s.until_s = 20000;
  return s;
}

Settings noisy(const std::string& topology, int ranks, const std::string& method, double momentum) {
  Settings s = gossip(topology, ranks, method);
  s.objective.objective = "quadratic";
  s.objective.mu = 0;
  s.objective.noise = 1;
  s.rule.optimizer.momentum = momentum;
  s.rule.optimizer.weight_decay = 0;
  s.lr = {1, Schedule::constant, 0};
  s.target = 0;
  return s;
}

RunResult simulate_one(Settings s, uint64_t seed, RunHooks hooks) {
  s.seed = seed;
  const Status possible = check(s);
  GV_CHECK(static_cast<bool>(possible));
  auto objective = make_objective(s);
  GV_CHECK(static_cast<bool>(objective));
  return *run(s, std::move(*objective), std::move(hooks));
}

void for_seeds(int count, const std::function<void(int)>& work) {
  std::atomic<int> next{1};
  auto take_turns = [&] {
    for (int seed = next++; seed <= count; seed = next++)
      work(seed);
  };
  std::vector<std::jthread> threads;
  for (unsigned k = 1; k < std::max(1u, std::thread::hardware_concurrency()); ++k)
    threads.emplace_back(take_turns);
  take_turns();
}

std::vector<RunResult> simulate_seeds(const Settings& s, int count) {
  std::vector<RunResult> results(static_cast<size_t>(count));
  for_seeds(count, [&](int seed) {
    results[static_cast<size_t>(seed - 1)] = simulate_one(s, static_cast<uint64_t>(seed));
  });
  return results;
}

Mean mean_of(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  Mean m;
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  for (const double v : values)
    m.sd += (v - m.mean) * (v - m.mean);
  m.sd = n > 1 ? std::sqrt(m.sd / (n - 1)) : 0;
  return m;
}

Mean exchanges_of(const std::vector<RunResult>& results) {
  std::vector<double> counts;
  for (const RunResult& r : results)
    counts.push_back(static_cast<double>(r.outcome.exchanges));
  return mean_of(counts);
}

double throughput(const RunResult& r, const Settings& s) {
  return 2 * static_cast<double>(r.outcome.exchanges) / s.ranks / r.outcome.seconds;
}

Settings at_work(int ranks, uint64_t gradients, const char* method, Share share) {
  Settings s = free_gossip("ring", ranks, 0.05);
  s.method = method;
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.share = share;
  s.gradients = gradients;
  s.objective.objective = "quadratic";
  s.objective.dim = 10;
  s.objective.noise = 0.1;
  s.rule.optimizer = {};
  s.lr = {0.05, Schedule::cosine, 0.1};
  return s;
}

double bytes_per_rank(int ranks) {
  Settings s = gossip("ring", ranks);
  s.target = 0;
  s.objective.dim = 64;
  s.until_s = 4;
  s.sample_s = 3.6;
  const auto in_use = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  malloc_trim(0);
  const size_t before = in_use();
  double bytes = 0;
  RunHooks hooks;
  hooks.sink.on_sample = [&](const RunSample& sample) {
    if (sample.at_s == 0) return;
    const Buffer x(64, DType::f64);  // as a rank's x and x~ are allocated
    const size_t vectors = 2 * malloc_usable_size(const_cast<void*>(x.vec().data));
    bytes = static_cast<double>(in_use() - before) / ranks - static_cast<double>(vectors);
  };
  simulate_one(s, 1, hooks);
  return bytes;
}

LinkFault loss_of(FrameClass frames, double probability) {
  LinkFault fault;
  fault.kind = LinkFaultKind::loss;
  fault.frames = frames;
  fault.probability = probability;
  return fault;
}

RankFault rank_fault(RankFaultKind kind, std::vector<int> ranks, double at) {
  RankFault fault;
  fault.kind = kind;
  fault.ranks = std::move(ranks);
  fault.at = at;
  return fault;
}

}  // namespace grapevine
