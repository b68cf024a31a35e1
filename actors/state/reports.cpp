#include "actors/state/reports.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/state/device_sample.hpp"

namespace grapevine {

namespace {

bool is_apart(const StateRank& rank) { return !rank.rule || rank.guard.apart_by().has_value(); }

void add_far_edges(int rank, const Guard& guard, std::vector<FarEdge>& far) {
  if (const auto by = guard.apart_by()) far.push_back({rank, Guard::kAll, true, true, *by, *by});
  for (const Guard::Edge& e : guard.edges()) {
    const bool is_finite = e.verdict != Guard::Verdict::not_finite;
    if (!is_finite || Guard::is_spent(e))
      far.push_back({rank, e.peer, is_finite, false, static_cast<double>(e.distance),
                     static_cast<double>(e.peer_distance)});
  }
}

}  // namespace

// Calls see(rank, x) for every rank from `place` on, with its parameters in the host's memory, then
// done().
void Reports::read_all(size_t place, Seen see, std::function<void()> done) {
  const ParameterLayout& layout = ranks_.layout();
  std::shared_ptr<Buffer> x;
  for (; place < ranks_.all().size(); ++place) {
    StateRank& here = ranks_.all()[place];
    const int rank = here.rank;
    if (!here.rule) continue;
    if (!x || x.use_count() > 1)
      x = std::make_shared<Buffer>(ranks_.execution, layout.size(), layout.dtype());
    if (!ranks_.guarded(rank, [&] { here.rule->read(ranks_.now(), *x); })) continue;
    const auto tell = [this, rank, x, see] {
      ranks_.guarded(rank, [&] {
        if (StateRank* still = ranks_.find(rank)) see(*still, x);
      });
    };
    if (ranks_.deps.device)
      return ranks_.turns.lower({x.get()}, [this, place, tell, see, done] {
        tell();
        read_all(place + 1, see, done);
      });
    tell();
  }
  done();
}

// A sample leaves out the ranks that are apart, unless all are.
std::function<bool(const StateRank&)> Reports::in_sample() const {
  const bool all_are = std::ranges::all_of(ranks_.all(), is_apart);
  return [all_are](const StateRank& rank) { return all_are || !is_apart(rank); };
}

void Reports::sample(const Sample& request, std::function<void(SampleReply)> reply) {
  if (ranks_.deps.device) return sample_on_device(request, std::move(reply));
  const size_t size = ranks_.layout().size();
  const auto sum = std::make_shared<Buffer>(size, DType::f64);
  const auto all = std::make_shared<SampleReply>();
  const auto see = [sum, all, counts = in_sample(), reference = request.reference](StateRank& rank,
                                                                                   const auto& x) {
    add_far_edges(rank.rank, rank.guard, all->far);
    if (!counts(rank)) return;
    const ConstVec center(reference->data(), reference->size(), DType::f64);
    all->squares += add_deviation({}, *x, center, *sum);
    ++all->ranks;
  };
  read_all(0, see, [sum, all, reply, size] {
    const auto* first = std::as_const(*sum).vec().as<double>();
    all->sum = std::make_shared<const std::vector<double>>(first, first + size);
    reply(std::move(*all));
  });
}

void Reports::sample_on_device(const Sample& request, std::function<void(SampleReply)> reply) {
  const auto sample = std::make_shared<DeviceSample>(ranks_.execution, ranks_.layout());
  SampleReply all;
  const auto counts = in_sample();
  for (const StateRank& rank : ranks_.all()) {
    if (!rank.rule) continue;
    add_far_edges(rank.rank, rank.guard, all.far);
    if (!counts(rank)) continue;
    const auto look = [&] { rank.rule->read(ranks_.now(), sample->place()); };
    if (ranks_.guarded(rank.rank, look)) sample->add();
  }
  auto answer = [sample, reply, all, reference = request.reference]() mutable {
    DeviceSample::About about = sample->about(*reference);
    all.ranks = about.ranks;
    all.squares = about.squares;
    all.sum = std::make_shared<const std::vector<double>>(std::move(about.sum));
    reply(std::move(all));
  };
  sample->is_empty() ? answer() : ranks_.turns.lower(sample->found(), answer);
}

StateReport Reports::report(double broken_after_norm) {
  StateReport report;
  report.broken_after_norm = broken_after_norm;
  for (StateRank& rank : ranks_.all()) {
    if (!rank.rule) continue;
    for (const Guard::Edge& e : rank.guard.edges())
      report.distances.push_back({rank.rank, e.peer, static_cast<double>(e.seen),
                                  1 - static_cast<double>(e.used) / Guard::kAllowance});
    ranks_.guarded(rank.rank, [&] { report.counts.push_back({rank.rank, rank.rule->counts()}); });
  }
  return report;
}

void Reports::tell(StateRank& rank, std::function<void(RankParameters)> reply) {
  const ParameterLayout& layout = ranks_.layout();
  auto x = std::make_shared<Buffer>(ranks_.execution, layout.size(), layout.dtype());
  rank.rule->read(ranks_.now(), *x);
  const RankParameters told{rank.rank, rank.rule->counts(), x, rank.guard.apart_by().has_value(),
                            rank.guard.reach()};
  ranks_.turns.lower({x.get()}, [told, reply] { reply(told); });
}

// The sum over all ranks of what gossip conserves. Null: it is not audited, or the rule conserves
// nothing.
std::shared_ptr<Buffer> Reports::conserved() {
  auto sum = std::make_shared<Buffer>(ranks_.execution, ranks_.layout().size(), DType::f64);
  bool audited = ranks_.deps.audits && !ranks_.turns.is_closed() && ranks_.keeps_sum();
  for (StateRank& rank : ranks_.all()) {
    if (!rank.rule || !audited) continue;
    // Ranks in different rounds have no common sum.
    const bool halfway = rank.local() != nullptr ? rank.in_round
                                                 : ranks_.is(Pattern::rounds) &&
                                                       rank.gradients != ranks_.all()[0].gradients;
    ranks_.guarded(rank.rank, [&] {
      audited = rank.rule->conserves() && !halfway;
      if (audited) rank.rule->add_conserved(ranks_.now(), *sum);
    });
  }
  return audited ? sum : nullptr;
}

void Reports::collect(double broken_after_norm, std::function<void(Collected)> reply) {
  const auto result = std::make_shared<Collected>();
  result->broken_after_norm = broken_after_norm;
  const std::shared_ptr<Buffer> sum = conserved();
  const ConstVec must_be = ranks_.expected();
  const auto expected = std::make_shared<Buffer>(ranks_.execution, must_be.size, DType::f64);
  if (sum) scale(ranks_.execution, 1, must_be, *expected);
  const auto see = [result](StateRank& rank, const std::shared_ptr<Buffer>& x) {
    result->ranks.push_back(
        {rank.rank, rank.rule->counts(), x, rank.guard.apart_by().has_value(), rank.guard.reach()});
  };
  read_all(0, see, [this, result, sum, expected, reply] {
    std::vector<Buffer*> both;
    if (sum) both = {sum.get(), expected.get()};
    ranks_.turns.lower(both, [result, sum, expected, reply] {
      result->conserved_error = sum ? 0 : std::numeric_limits<double>::quiet_NaN();
      for (size_t k = 0; sum && k < sum->size(); ++k) {
        const double off = sum->vec().as<double>()[k] - expected->vec().as<double>()[k];
        result->conserved_error = std::max(result->conserved_error, std::abs(off));
      }
      reply(std::move(*result));
    });
  });
}

}  // namespace grapevine
