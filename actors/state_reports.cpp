// What a State tells of its ranks: samples, distances across edges, and the parameters at the end.
#include <cmath>
#include <limits>

#include "actors/state.hpp"

namespace grapevine {

namespace {

constexpr double kBetweenMeasures_s = 1;  // of a rank, each a pass over its vector

}  // namespace

// What is sent may be less than the parameters: a part of low rank says no distance.
void State::measure_distance(Member& member, const Apply& a, double now) {
  if (!deps_.measures_distance || now < member.measured_at_s + kBetweenMeasures_s) return;
  const ParameterLayout& layout = deps_.objective->layout();
  for (const Payload* p : {&a.sent, &a.received})
    if (p->count != layout.size() || p->dtype != layout.dtype()) return;
  Lease lease = snapshots_.take();
  if (!lease) return;
  const Vec difference = lease.writable();
  scale(execution_, 1, a.sent.vec(), difference);
  axpy(execution_, -1, a.received.vec(), difference);
  const double distance = std::sqrt(dot(execution_, difference, difference));
  member.measured_at_s = now;
  distances_[{member.rank, a.exchange.peer}] = distance;
}

SampleReply State::sample(const Sample& request) {
  const size_t size = deps_.objective->layout().size();
  Buffer sum(size, DType::f64);
  Buffer x(size, deps_.objective->layout().dtype());
  const ConstVec reference(request.reference->data(), request.reference->size(), DType::f64);
  SampleReply reply;
  for (Member& member : members_) {
    if (!member.rule) continue;
    member.rule->read(deps_.clock.now(), x);
    reply.squares += add_deviation(execution_, x, reference, sum);
    ++reply.ranks;
  }
  const double* first = sum.vec().as<double>();
  reply.sum = std::make_shared<const std::vector<double>>(first, first + size);
  return reply;
}

StateReport State::report() const {
  StateReport report;
  for (const Member& member : members_) {
    if (!member.rule) continue;
    report.counts.push_back({member.rank, member.rule->counts()});
  }
  for (const auto& [ends, distance] : distances_)
    report.distances.push_back({ends.first, ends.second, distance});
  return report;
}

Collected State::collect() {
  Collected result;
  const ParameterLayout& layout = deps_.objective->layout();
  Buffer sum(layout.size(), DType::f64);
  bool audited = deps_.audits;
  for (Member& member : members_) {
    if (!member.rule) continue;
    auto x = std::make_shared<Buffer>(layout.size(), layout.dtype());
    member.rule->read(deps_.clock.now(), *x);
    if (audited) member.rule->add_conserved(deps_.clock.now(), sum);
    // Ranks in the middle of different rounds have no common sum.
    const bool halfway = member.rounds != nullptr && member.gradients != members_[0].gradients;
    audited = audited && member.rule->conserves() && !halfway;
    result.ranks.push_back({member.rank, member.rule->counts(), std::move(x)});
  }
  result.conserved_error = audited ? 0 : std::numeric_limits<double>::quiet_NaN();
  for (size_t k = 0; audited && k < layout.size(); ++k) {
    const double off = sum.vec().as<double>()[k] - expected_.vec().as<double>()[k];
    result.conserved_error = std::max(result.conserved_error, std::abs(off));
  }
  return result;
}

}  // namespace grapevine
