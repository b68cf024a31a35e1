#include "actors/run/state_sizes.hpp"

#include <algorithm>

#include "actors/algorithms/relay.hpp"
#include "kernels/dry_device.hpp"
#include "kernels/snapshot_pool.hpp"
#include "topologies/weights.hpp"

namespace grapevine {

namespace {

// Pairwise: a rank has at most four exchanges open. Rounds: of an edge and direction the messages
// of two phases are kept for those who ask, one more is written, and the rule may keep one.
size_t messages_at_most(const Settings& s, size_t members) {
  size_t degrees = 0;
  if (method_named(s.method).pattern == Pattern::rounds) {
    const auto graph = make_topology(s.topology, s.ranks, s.rate);
    GV_CHECK(static_cast<bool>(graph));
    degrees = 2 * graph->edges().size();
  }
  return 8 * members + 8 + 16 * degrees;
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
  RuleSettings rule = s.rule;
  if (!objective.has_gradients()) {  // guests have optimizers and rates of their own
    rule.optimizer = {};
    rule.relay_lr = false;
  }
  if (rule.gamma == 0) rule.gamma = gamma_of_graph(s);
  return rule;
}

StatePools pools_of(const Settings& s, const ParameterLayout& layout, size_t members,
                    bool on_device) {
  StatePools pools;
  pools.snapshots = 4 * members + 8;  // a rank has one copy, one sample, and what its worker holds
  pools.messages = messages_at_most(s, members);
  if (on_device) {  // where memory is dear, and samples are elsewhere
    if (s.pacing == Pacing::greedy) pools.snapshots = 2 * members + 8;
    // An exchange, and the one before, whose data may be asked for again; then offers are declined.
    if (method_named(s.method).pattern == Pattern::pairwise) pools.messages = 2 * members + 8;
  }
  if (method_named(s.method).pattern == Pattern::collective) {
    const auto n = static_cast<size_t>(s.ranks);
    pools.chunk_size = layout.size() / n + 1;
    pools.chunks = 6 * n * members;  // the parts of two rounds are kept, those of a third arrive
  }
  return pools;
}

namespace {

struct MessageBytes {
  size_t first = 0;  // of the pool that is there from the start on
  size_t later = 0;  // of what may take its place
};

// Of the pools of what goes to other ranks.
MessageBytes bytes_of_messages(const Settings& s, const ParameterLayout& layout,
                               const RuleSettings& rule_settings, const StatePools& pools) {
  if (method_named(s.method).pattern == Pattern::collective) {
    // Where all but two have gone parts are half a vector each, beside those of the start.
    const size_t largest = layout.size() / 2 + 1;
    const size_t start = SnapshotPool::bytes_for(pools.chunk_size, layout.dtype(), pools.chunks);
    return {start, 2 * SnapshotPool::bytes_for(largest, layout.dtype(), pools.chunks) - start};
  }
  const Buffer x(layout.size(), layout.dtype());
  const auto rule = method_named(s.method).make({0, s.seed, layout, {}, rule_settings, x});
  const auto* in_rounds = dynamic_cast<RoundRule*>(rule.get());
  const size_t bytes = in_rounds != nullptr ? in_rounds->message_bytes()
                                            : static_cast<PairwiseRule&>(*rule).snapshot_bytes();
  return {SnapshotPool::bytes_for(bytes, DType::bytes, pools.messages), 0};
}

struct RankBytes {
  size_t kept = 0;  // by a rank
  size_t room = 0;  // while one comes or is copied
};

// On a device, at most, found out by making a rank and letting it meet as many neighbours as
// anybody has.
RankBytes bytes_of_rank(const Settings& s, const ParameterLayout& layout,
                        const RuleSettings& rule_settings, size_t degree) {
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
  const SavedState copy = save(on, rule->state(0), true);
  // One that comes brings its start, and what an earlier life and another rank have left.
  bytes.room = start_bytes + 2 * (workspace.in_use() - without_copy);
  return bytes;
}

// What a script's front is stepped from, where the rank lives.
size_t bytes_of_front(const ParameterLayout& layout) {
  return SnapshotPool::bytes_for(layout.size(), layout.dtype(), 2) +
         SnapshotPool::bytes_for(1, DType::f64, 1);
}

// The state actor's own: what reach() compares, sums that it audits and hands out, and x of a rank
// that is read.
size_t bytes_of_state(const ParameterLayout& layout) {
  const auto of = [&](DType dtype, size_t count) {
    return SnapshotPool::bytes_for(layout.size(), dtype, count);
  };
  const size_t partial = SnapshotPool::bytes_for(reduction_blocks(layout.size()), DType::f64, 1);
  return of(layout.dtype(), 4) + of(DType::f64, 5) + partial;
}

// Of this graph, with room for others: any may follow while the run goes on.
size_t largest_degree(const Settings& s) {
  constexpr int kUsual = 16;
  const auto graph = make_topology(s.topology, s.ranks, s.rate);
  GV_CHECK(static_cast<bool>(graph));
  int degree = std::min(kUsual, s.ranks - 1);
  for (int rank = 0; rank < s.ranks; ++rank)
    degree = std::max(degree, graph->degree(rank));
  return static_cast<size_t>(std::max(1, degree));
}

}  // namespace

DeviceSizes device_sizes(const Settings& s, const Objective& objective) {
  constexpr size_t kPiece = size_t{1} << 20;
  const ParameterLayout& layout = objective.layout();
  const auto ranks = static_cast<size_t>(ranks_here(s));
  const RuleSettings rule_settings = rule_settings_of(s, objective);
  const StatePools pools = pools_of(s, layout, ranks, true);
  const size_t degree = largest_degree(s);
  DeviceSizes sizes;
  sizes.gradient_size = layout.size();
  sizes.dtype = layout.dtype();
  sizes.gradients = ranks + kLanes + 2;  // one of each may wait to be taken
  sizes.askings = ranks * (2 + degree * 3 * Relay::kMostTrees / Workspace::kNumbersOfSlot);
  const RankBytes rank = bytes_of_rank(s, layout, rule_settings, degree);
  sizes.rank_bytes = ranks * rank.kept;
  const bool of_scripts = objective.has_workers() && !objective.has_gradients();
  if (of_scripts) sizes.rank_bytes += (ranks + 1) * bytes_of_front(layout);  // one comes, one goes
  sizes.state_bytes = bytes_of_state(layout) + rank.room;
  sizes.copy_bytes = SnapshotPool::bytes_for(layout.size(), layout.dtype(), pools.snapshots);
  const MessageBytes messages = bytes_of_messages(s, layout, rule_settings, pools);
  sizes.exchange_bytes = messages.first + messages.later;
  if (s.local_ranks > 0) {  // a node's: what has arrived lies there too
    sizes.lent_bytes = messages.first;
    sizes.exchange_bytes += messages.later;
  }
  sizes.lanes = kLanes;
  sizes.piece_bytes = std::min(kPiece, layout.size() * sizeof(double));
  return sizes;
}

}  // namespace grapevine
