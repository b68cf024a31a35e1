#include "actors/run/state_sizes.hpp"

#include <algorithm>

#include "actors/algorithms/relay.hpp"
#include "actors/algorithms/rule.hpp"
#include "actors/state/device_sample.hpp"
#include "actors/state/local_steps.hpp"
#include "kernels/device/dry_device.hpp"
#include "kernels/gpu/nccl_edge.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "topologies/weights.hpp"

namespace grapevine {

namespace {

size_t degrees_of(const Settings& s) {
  const auto graph = make_topology(s.topology, s.ranks, s.rate);
  GV_CHECK(static_cast<bool>(graph));
  return 2 * graph->edges().size();
}

// The largest degree in this graph, and at least 16, because another graph may follow.
size_t largest_degree(const Settings& s) {
  constexpr int kUsual = 16;
  const int most = s.local_ranks > 0 ? kUsual : s.ranks - 1;  // others may join
  const auto graph = make_topology(s.topology, s.ranks, s.rate);
  GV_CHECK(static_cast<bool>(graph));
  int degree = std::min(kUsual, most);
  for (int rank = 0; rank < s.ranks; ++rank)
    degree = std::max(degree, graph->degree(rank));
  return static_cast<size_t>(std::max(1, degree));
}

// A pairwise rank has at most four open exchanges. In rounds: enough for any graph, and many times
// the messages in flight.
size_t messages_at_most(const Settings& s, size_t members) {
  const bool rounds = method_named(s.method).pattern == Pattern::rounds;
  return 8 * members + 8 + (rounds ? 16 * degrees_of(s) : 0);
}

// Edges of the ranks here, in both directions. All trees of a run have equally many. Any other
// graph may be replaced by one with more.
size_t edges_of(const Settings& s, size_t members) {
  const size_t most = members * largest_degree(s);
  return method_named(s.method).relays ? std::min(degrees_of(s), most) : most;
}

// A pairwise rank keeps the message of one exchange, and of the one before, which its peer may
// request again. Beyond that it declines offers. In rounds a rank keeps the messages of a phase and
// of the phases before it that a peer may request; the rule may also keep one of each neighbour.
size_t messages_on_device(const Settings& s, size_t members, bool broadcasts) {
  const Method& method = method_named(s.method);
  if (method.pattern == Pattern::pairwise) return 2 * members + 8;
  if (method.partners) {
    const int ranks = s.local_ranks > 0 ? 2 * s.ranks : s.ranks;  // others may join
    const int behind = method.partners.most_behind(s.rule, std::max(2, ranks));
    return members * (static_cast<size_t>(behind) + 2) + 8;
  }
  const size_t edges = edges_of(s, members);
  const size_t kept = broadcasts && s.rule.missing == Missing::reuse ? edges : 0;
  return 3 * (broadcasts ? members : edges) + kept + 8;
}

// A broken NCCL edge may keep the message that it sends and the one that it receives.
size_t written_off_at_most(const Settings& s) {
  return s.device_link == DeviceLink::nccl ? NcclOptions().most_edges : 0;
}

std::unique_ptr<Rule> any_rule(const Settings& s, const Objective& objective,
                               const RuleSettings& rule_settings) {
  const ParameterLayout& layout = objective.layout();
  const Buffer x(layout.size(), layout.dtype());
  return method_named(s.method).make({0, s.seed, layout, {}, rule_settings, x});
}

double gamma_of_graph(const Settings& s) {
  const auto graph = make_topology(s.topology, s.ranks, s.rate);
  GV_CHECK(static_cast<bool>(graph));
  const auto matrix = gossip_matrix(s.weights, *graph);
  GV_CHECK(static_cast<bool>(matrix));
  const auto spectrum = matrix_spectrum(*graph, *matrix);
  GV_CHECK(static_cast<bool>(spectrum));
  return best_gamma(*spectrum);
}

}  // namespace

RuleSettings rule_settings_of(const Settings& s, const Objective& objective) {
  RuleSettings rule = rule_settings_of(s);
  if (!objective.has_gradients()) {  // scripts have their own optimizers and learning rates
    if (!inner_steps_of(s)) rule.optimizer = {};
    rule.relay_lr = false;
  }
  if (rule.gamma == 0) rule.gamma = gamma_of_graph(s);
  return rule;
}

int vectors_of_rule(const Settings& s, const Objective& objective, const RuleSettings& rule) {
  const ParameterLayout& layout = objective.layout();
  const Buffer x(layout.size(), layout.dtype());
  const auto made = method_named(s.method).make({0, s.seed, layout, {}, rule, x});
  return static_cast<CollectiveRule&>(*made).vectors(0);
}

StatePools pools_of(const Settings& s, const Objective& objective,
                    const RuleSettings& rule_settings, size_t members, bool on_device) {
  StatePools pools;
  pools.ranks = members;
  pools.snapshots = 4 * members + 8;  // of a rank: a copy, a sample, and what its worker holds
  pools.messages = messages_at_most(s, members);
  if (on_device) {  // its memory is scarce, and samples are not kept there
    if (s.pacing == Pacing::greedy) pools.snapshots = 2 * members + 8;
    const auto rule = any_rule(s, objective, rule_settings);
    const auto* in_rounds = dynamic_cast<const RoundRule*>(rule.get());
    pools.messages = messages_on_device(s, members, in_rounds && in_rounds->broadcasts());
    pools.messages += written_off_at_most(s);
  }
  const auto n = static_cast<size_t>(s.ranks);
  if (method_named(s.method).pattern == Pattern::collective) {
    pools.parts = RingParts::of(objective.layout().size(), n, n, members);
    if (on_device) pools.parts.count += written_off_at_most(s);
  }
  return pools;
}

namespace {

struct MessageBytes {
  size_t first = 0;     // the pool of the start
  size_t later = 0;     // pools that may be added
  size_t arriving = 0;  // for messages that arrive at the ranks of a node
};

// The pools for messages to other ranks. Received messages are kept like sent ones: in rounds for
// each edge of any graph; in an all-reduce until their round begins, and while a rank forwards
// them.
MessageBytes bytes_of_messages(const Settings& s, const Objective& objective,
                               const RuleSettings& rule_settings, const StatePools& pools) {
  const ParameterLayout& layout = objective.layout();
  if (method_named(s.method).pattern == Pattern::collective) {
    const auto n = static_cast<size_t>(s.ranks);
    const auto bytes_of = [&](size_t ring) {
      const RingParts parts = RingParts::of(layout.size(), ring, n, pools.ranks);
      return SnapshotPool::bytes_for(parts.size, layout.dtype(), parts.count);
    };
    size_t later = s.local_ranks > 0 ? bytes_of(2 * n) : 0;  // others may join
    for (size_t ring = n; ring > 2;) {
      ring = (ring + 1) / 2;
      later += bytes_of(ring);
    }
    const auto of_all = [&](size_t count) {
      return SnapshotPool::bytes_for(pools.parts.size, layout.dtype(), count);
    };
    return {of_all(pools.parts.count), later, 2 * bytes_of(n) + of_all(written_off_at_most(s))};
  }
  const auto rule = any_rule(s, objective, rule_settings);
  const auto* in_rounds = dynamic_cast<RoundRule*>(rule.get());
  const size_t bytes = in_rounds != nullptr ? in_rounds->message_bytes()
                                            : static_cast<PairwiseRule&>(*rule).snapshot_bytes();
  const auto bytes_for = [&](size_t messages) {
    return SnapshotPool::bytes_for(bytes, DType::bytes, messages);
  };
  const bool by_edge = in_rounds != nullptr && !method_named(s.method).partners;
  const size_t arriving =
      by_edge ? 3 * edges_of(s, pools.ranks) + 8 + written_off_at_most(s) : pools.messages;
  return {bytes_for(pools.messages), 0, bytes_for(arriving)};
}

struct RankBytes {
  size_t kept = 0;  // by a rank all the time
  size_t room = 0;  // while a rank is added or copied
};

// An upper bound on a device: makes a rank on a device that only counts, and lets it meet `degree`
// neighbours.
RankBytes bytes_of_rank(const Settings& s, const Objective& objective,
                        const RuleSettings& rule_settings, size_t degree) {
  const ParameterLayout& layout = objective.layout();
  constexpr size_t kEnough = size_t{1} << 50;
  DryDevice device;
  Fences fences(device);
  Stream stream;
  Block memory, numbers;
  static_cast<void>(fences.make_stream(Fences::Kind::shared, stream));
  static_cast<void>(device.allocate(kEnough, Block::Kind::device, memory));
  static_cast<void>(device.allocate(Workspace::bytes_for(1), Block::Kind::pinned, numbers));
  Workspace workspace(device, fences, stream, memory, numbers, 1);
  const Execution on{nullptr, &device, stream, &workspace};
  const Buffer x(on, layout.size(), layout.dtype());
  const size_t start_bytes = workspace.in_use();
  const auto rule = method_named(s.method).make({0, s.seed, layout, on, rule_settings, x});
  const auto local = local_steps_of(on, objective, inner_steps_of(s));
  Neighbourhood near;
  for (size_t k = 1; k <= degree; ++k)
    near.neighbours.push_back({static_cast<int>(k), 1.0 / static_cast<double>(degree + 1),
                               static_cast<uint8_t>((1u << Relay::kMostTrees) - 1)});
  if (auto* in_rounds = dynamic_cast<RoundRule*>(rule.get())) in_rounds->enter(near);
  for (const Neighbourhood::Neighbour& neighbour : near.neighbours)
    rule->meet({neighbour.rank, 0, 0, 0});
  RankBytes bytes;
  bytes.kept = workspace.most_in_use() - start_bytes;
  const size_t without_copy = workspace.in_use();
  const SavedState copy = save(on, state_of(0, *rule, local.get()), true);
  // A rank that is added brings its start, its record and the state of another rank.
  bytes.room = start_bytes + 2 * (workspace.in_use() - without_copy);
  return bytes;
}

// The base of a script's front, in the memory of its rank.
size_t bytes_of_front(const ParameterLayout& layout) {
  return SnapshotPool::bytes_for(layout.size(), layout.dtype(), 2) +
         SnapshotPool::bytes_for(1, DType::f64, 1);
}

// The state actor's own vectors: x before and after a step, the movement of a front, the start of a
// rank, the x of a rank that is read, the sums that it audits and returns, the parts of a sample.
size_t bytes_of_state(const ParameterLayout& layout) {
  const auto of = [&](DType dtype, size_t count) {
    return SnapshotPool::bytes_for(layout.size(), dtype, count);
  };
  const size_t partial = SnapshotPool::bytes_for(reduction_blocks(layout.size()), DType::f64, 1);
  return of(layout.dtype(), 5) + of(DType::f64, 4) + partial + DeviceSample::bytes_for(layout);
}

}  // namespace

DeviceSizes device_sizes(const Settings& s, const Objective& objective) {
  constexpr size_t kPiece = size_t{1} << 20, kDockPiece = size_t{8} << 20;
  const ParameterLayout& layout = objective.layout();
  const auto ranks = static_cast<size_t>(ranks_here(s));
  const RuleSettings rule_settings = rule_settings_of(s, objective);
  const StatePools pools = pools_of(s, objective, rule_settings, ranks, true);
  const size_t degree = largest_degree(s);
  DeviceSizes sizes;
  sizes.gradient_size = layout.size();
  sizes.dtype = layout.dtype();
  // Each rank and each lane may hold one that is not taken yet.
  sizes.gradients = ranks + kLanes + 2;
  sizes.askings = ranks * (2 + degree * 3 * Relay::kMostTrees / Workspace::kNumbersOfSlot);
  const RankBytes rank = bytes_of_rank(s, objective, rule_settings, degree);
  sizes.rank_bytes = ranks * rank.kept;
  const bool of_scripts = objective.has_workers() && !objective.has_gradients();
  // A script may come before another one has gone.
  if (of_scripts) sizes.rank_bytes += (ranks + 1) * bytes_of_front(layout);
  sizes.state_bytes = bytes_of_state(layout) + rank.room;
  sizes.copy_bytes = SnapshotPool::bytes_for(layout.size(), layout.dtype(), pools.snapshots);
  const MessageBytes messages = bytes_of_messages(s, objective, rule_settings, pools);
  sizes.exchange_bytes = messages.first + messages.later;
  if (s.local_ranks > 0) {  // on a node
    sizes.lent_bytes = messages.first;
    sizes.exchange_bytes = messages.arriving + messages.later;
  }
  sizes.lanes = kLanes;
  sizes.piece_bytes = std::min(kPiece, layout.size() * sizeof(double));
  if (s.local_ranks > 0) sizes.dock_piece_bytes = std::min(kDockPiece, layout.size() * 8);
  return sizes;
}

}  // namespace grapevine
