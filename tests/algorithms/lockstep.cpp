#include "tests/algorithms/lockstep.hpp"

#include <utility>

#include "kernels/memory/snapshot_pool.hpp"
#include "topologies/trees.hpp"
#include "topologies/weights.hpp"

namespace grapevine::test {

namespace {

ConstVec view(const Lockstep::Row& row) {
  return {row.data(), static_cast<size_t>(row.size()), DType::f64};
}

Vec view(Lockstep::Row& row) { return {row.data(), static_cast<size_t>(row.size()), DType::f64}; }

}  // namespace

std::function<Lockstep::Row(int, uint64_t, const Lockstep::Row&)> gradient_of(
    Objective& objective) {
  return [&objective](int rank, uint64_t round, const Lockstep::Row& x) {
    Lockstep::Row g(x.size());
    objective.gradient(0, rank, round, view(x), view(g));
    return g;
  };
}

Eigen::MatrixXd start_of(const Objective& objective, int ranks) {
  Lockstep::Row row(static_cast<Eigen::Index>(objective.layout().size()));
  Eigen::MatrixXd start(ranks, row.size());
  for (int rank = 0; rank < ranks; ++rank) {
    objective.initial_point(rank, view(row));
    start.row(rank) = row;
  }
  return start;
}

Lockstep::Lockstep(LockstepOptions options)
    : options_(std::move(options)), method_(method_named(options_.method)) {
  GV_CHECK(options_.layout.dtype() == DType::f64);
  const auto size = static_cast<Eigen::Index>(options_.layout.size());
  if (options_.start.size() == 0) options_.start.setZero(options_.ranks, size);
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const Row start = options_.start.row(rank);
    const RuleContext context{rank, options_.seed, options_.layout, {}, options_.rule, view(start)};
    std::unique_ptr<Rule> rule = options_.make ? options_.make(context) : method_.make(context);
    rules_.emplace_back(dynamic_cast<RoundRule*>(rule.release()));
    GV_CHECK(rules_.back() != nullptr);
  }
  enter(options_.topology, options_.weights);
}

void Lockstep::enter(const std::string& topology, const std::string& weights) {
  enter(*make_topology(topology, options_.ranks, 1), weights);
}

void Lockstep::enter(const Topology& topology, const std::string& weights) {
  topology_ = topology;
  arrived_.resize(rules_.size());
  const GossipMatrix matrix = *gossip_matrix(weights, topology);
  const bool trees = tree_count(topology) > 0;
  const double delay = trees ? mean_relay_delay(tree_of(topology, 0)) : 0;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    Neighbourhood near;
    near.self_weight = matrix.self[static_cast<size_t>(rank)];
    near.ranks = options_.ranks;
    near.relay_delay = delay;
    for (const Neighbour& n : topology.neighbours(rank)) {
      const auto edge = static_cast<size_t>(n.edge);
      near.neighbours.push_back({n.rank, matrix.edge[edge], topology.edges()[edge].trees});
    }
    rule(rank).enter(near);
    arrived_[static_cast<size_t>(rank)].assign(near.neighbours.size(), {});
  }
  const size_t bytes = rule(0).message_bytes();
  pool_ = std::make_unique<SnapshotPool>(bytes, DType::bytes, size_t{1} << 20);
}

Payload Lockstep::written(int from, int phase, size_t edge) {
  Payload payload{pool_->take()};
  rule(from).write(phase, edge, payload);
  return payload;
}

void Lockstep::round(double lr) {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const Row at = x(rank);
    const Row g = options_.gradient ? options_.gradient(rank, round_, at) : Row::Zero(at.size());
    rule(rank).on_gradient(0, lr, view(g), {});
  }
  if (method_.waits) {
    for (int phase = 0; phase < rule(0).phases(); ++phase)
      combine(phase, exchange(phase));
  } else {
    combine(0, arrived_);
    arrived_ = exchange(0);
  }
  ++round_;
}

void Lockstep::rounds(int count, double lr) {
  for (; count > 0; --count)
    round(lr);
}

Lockstep::Incoming Lockstep::exchange(int phase) {
  std::vector<std::vector<Payload>> sent(rules_.size());  // [from][edge], or [from][0] for all
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const bool one_message = method_.partners || rule(rank).broadcasts();
    const size_t edges = one_message ? 1 : topology_.neighbours(rank).size();
    for (size_t edge = 0; edge < edges; ++edge)
      sent[static_cast<size_t>(rank)].push_back(written(rank, phase, edge));
  }
  Incoming in(rules_.size());
  for (int rank = 0; rank < options_.ranks; ++rank)
    in[static_cast<size_t>(rank)] = incoming(rank, phase, sent);
  return in;
}

void Lockstep::combine(int phase, const Incoming& in) {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::vector<Received>& messages = in[static_cast<size_t>(rank)];
    rule(rank).pull(phase, messages);
    rule(rank).combine(0, phase, messages);
  }
}

std::vector<Received> Lockstep::incoming(int rank, int phase,
                                         const std::vector<std::vector<Payload>>& sent) {
  std::vector<Received> in;
  auto arrive = [&](int from, size_t edge) {
    const auto& all = sent[static_cast<size_t>(from)];
    const Payload& payload = all.size() == 1 ? all[0] : all[edge];
    ++messages_;
    bytes_ += payload.count * size_of(payload.dtype);
    in.push_back({options_.lost && options_.lost(round_, from, rank) ? Payload{} : payload});
  };
  if (method_.partners) {
    const auto number = static_cast<uint64_t>(round_) * static_cast<uint64_t>(rule(rank).phases()) +
                        static_cast<uint64_t>(phase);
    const auto peer =
        method_.partners.of(options_.rule, rank, options_.ranks, options_.seed, number);
    if (peer.from != rank) arrive(peer.from, 0);
    return in;
  }
  for (const Neighbour& n : topology_.neighbours(rank)) {
    size_t edge = 0;  // of the sender, to this rank
    while (topology_.neighbours(n.rank)[edge].rank != rank)
      ++edge;
    arrive(n.rank, edge);
  }
  return in;
}

Lockstep::Row Lockstep::x(int rank) const {
  Row row(static_cast<Eigen::Index>(options_.layout.size()));
  rules_[static_cast<size_t>(rank)]->read(0, view(row));
  return row;
}

Eigen::MatrixXd Lockstep::all() const {
  Eigen::MatrixXd all(options_.ranks, static_cast<Eigen::Index>(options_.layout.size()));
  for (int rank = 0; rank < options_.ranks; ++rank)
    all.row(rank) = x(rank);
  return all;
}

Lockstep::Row Lockstep::mean() const { return all().colwise().mean(); }

double Lockstep::farthest(const Row& from) const {
  return (all().rowwise() - from).cwiseAbs().maxCoeff();
}

double Lockstep::spread() const {
  return (all().rowwise() - mean()).rowwise().squaredNorm().mean();
}

}  // namespace grapevine::test
