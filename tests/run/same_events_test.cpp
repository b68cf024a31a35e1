// The results of a seed, to the bit: the hash of all events of a run, and that of the parameters at
// its end, for ten seeds of five methods. A change of structure leaves both as they are. Where the
// order or the number of frames is meant to change, the events' hashes change with it, in a commit
// that does nothing else and says why; the parameters' may not change for another reason than
// arithmetic.
#include <cstdio>
#include <string>

#include "actors/algorithms/method_registry.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

constexpr int kSeeds = 10;
constexpr int kRanks = 9;

struct Run {
  const char* method;
  const char* topology;
  const char* later;  // the graph after two fifths of the run, in every other seed
  const char* compress;
};

constexpr Run kRuns[] = {
    {"a2cid2", "torus:3x3", "ring", ""},    {"ad_psgd", "ring", "star", "powergossip:rank=1"},
    {"d_psgd", "complete", "ring", ""},     {"relaysgd", "binary-tree", "chain", ""},
    {"all_reduce", "ring", "complete", ""},
};

struct Hashes {
  uint64_t events, parameters;
};

constexpr Hashes kHashes[std::size(kRuns)][kSeeds] = {
#include "tests/run/same_events.inc"
};

RankFault at(RankFaultKind kind, int rank, double when) { return rank_fault(kind, {rank}, when); }

// Latency, jitter, loss, a slow rank; then, by seed, a rank that dies and comes back, and another
// graph.
Settings settings_of(const Run& r, int seed) {
  Settings s = free_gossip(r.topology, kRanks, 0.2);
  const bool pairs = method_named(r.method).pattern == Pattern::pairwise;
  s.method = r.method;
  s.pairing = seed % 3 == 0 ? Pairing::poisson : Pairing::free;
  s.pacing = pairs && seed % 4 == 0 ? Pacing::poisson : Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = 60 * kRanks;
  s.objective.objective = "quadratic";
  s.objective.dim = 24;
  s.objective.noise = 0.1;
  s.objective.zeta2 = 1;
  s.lr = {0.02, Schedule::cosine, 0.1};
  s.rule.compress = r.compress;
  s.speed_spread = 0.2;
  s.plan.link_faults = {loss_of(FrameClass::all, 0.05)};
  RankFault slow = at(RankFaultKind::slow, 4, 0);
  slow.factor = 2;
  s.plan.rank_faults = {slow};
  if (seed > 4)
    s.plan.rank_faults.insert(s.plan.rank_faults.end(),
                              {at(RankFaultKind::kill, 2, 15), at(RankFaultKind::restart, 2, 30)});
  if (seed % 2 == 0) s.plan.reconfigurations = {{24, r.later}};
  return s;
}

}  // namespace

TEST_CASE("seeds have the events and the parameters that they always had") {
  std::string table;
  size_t unlike = 0;
  for (size_t k = 0; k < std::size(kRuns); ++k) {
    table += "    {\n";
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const Status possible = check(settings_of(kRuns[k], seed));
      INFO(kRuns[k].method << ", seed " << seed << ": "
                           << (possible ? "" : possible.error().message));
      REQUIRE(possible);
      const RunResult r = simulate_one(settings_of(kRuns[k], seed), static_cast<uint64_t>(seed));
      const Hashes now{r.event_log_hash, parameter_hash(r.outcome)};
      char row[80];
      std::snprintf(row, sizeof row, "        {0x%016lx, 0x%016lx},\n", now.events, now.parameters);
      table += row;
      const Hashes& known = kHashes[k][seed - 1];
      CHECK(now.parameters == known.parameters);
      CHECK(now.events == known.events);
      unlike += now.parameters != known.parameters || now.events != known.events;
    }
    table += "    },\n";
  }
  if (unlike > 0) std::printf("what they are now:\n%s", table.c_str());
}
