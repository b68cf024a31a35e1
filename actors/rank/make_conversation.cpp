#include "actors/rank/make_conversation.hpp"

#include <algorithm>

#include "actors/algorithms/method_registry.hpp"
#include "actors/conversations/collective.hpp"
#include "actors/conversations/pairwise.hpp"
#include "actors/conversations/rounds.hpp"

namespace grapevine {

namespace {
constexpr double kLeastTimeoutWall_s = 1e-2;  // a busy machine may answer a few time slices late
constexpr double kMostTimeoutWall_s = 1;
}  // namespace

std::unique_ptr<Conversation> make_conversation(const ConversationOf& of) {
  const Settings& s = of.settings;
  const bool wall = s.clock == Clock::wall;
  const Method& method = method_named(s.method);
  const bool has_outer_steps = static_cast<bool>(inner_steps_of(s));
  const double under_way_s = 4 * (s.link.latency_s + s.link.transfer_s);
  const double least_timeout_s = wall ? kLeastTimeoutWall_s : 0;
  const double gradients_s = 10 * of.step_s / static_cast<double>(s.inner_steps);
  const double patience_s = std::max(10 * of.step_s + under_way_s, least_timeout_s);
  const double patience_at_end_s = std::max(gradients_s + under_way_s, least_timeout_s);
  if (method.pattern == Pattern::rounds) {
    RoundsOptions options;
    options.rank = of.rank;
    options.phases = method.phases(of.rule);
    options.waits = method.waits;
    options.resends = of.rule.missing == Missing::resend;
    if (const RoundPartners partners = method.partners) {
      options.partners = [partners, rule = of.rule, seed = s.seed](int place, int ranks,
                                                                   uint64_t phase) {
        return partners.of(rule, place, ranks, seed, phase);
      };
      options.most_behind = [partners, rule = of.rule](int ranks) {
        return partners.most_behind(rule, ranks);
      };
    }
    options.patience_s = patience_s;
    options.patience_at_end_s = patience_at_end_s;
    options.finishes = has_outer_steps || method.sends_mass;
    return std::make_unique<Rounds>(options);
  }
  if (method.pattern == Pattern::collective) {
    CollectiveOptions options;
    options.rank = of.rank;
    options.size = of.layout.size();
    options.dtype = of.layout.dtype();
    options.vectors = of.vectors;
    options.patience_s = patience_s;
    options.patience_at_end_s = patience_at_end_s;
    options.finishes = has_outer_steps;
    return std::make_unique<Collective>(options);
  }
  PairwiseOptions options;
  options.pairing = s.pairing;
  options.rank = of.rank;
  options.seed = s.seed;
  options.round_trip_s = wall ? 1e-3 : 2.5 * s.link.latency_s;
  const double bytes = static_cast<double>(of.layout.bytes());
  const double transfer = s.link.transfer_s + (s.link.bandwidth > 0 ? bytes / s.link.bandwidth : 0);
  options.duration_s = wall ? 5e-3 : transfer + 4 * s.link.latency_s;
  options.least_timeout_s = wall ? kLeastTimeoutWall_s : 1e-6 * of.step_s;
  if (wall) options.most_timeout_s = kMostTimeoutWall_s;
  options.allow_repeats = s.allow_repeats;
  options.exchanges_at_once = s.exchanges_at_once;
  return std::make_unique<Pairwise>(options);
}

}  // namespace grapevine
