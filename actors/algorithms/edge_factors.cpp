#include "actors/algorithms/edge_factors.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {

double normal_entry(Random& random, size_t, size_t) { return random.normal(); }

namespace {
double cosine_entry(Random&, size_t row, size_t column) {
  return std::cos(static_cast<double>(row * column));
}
}  // namespace

// --- the spec

namespace {

constexpr size_t kMost = 1000000;  // of a rank or of iterations

/// The number in `text`, or 0 if `text` is not a number.
size_t positive(std::string_view text) {
  const size_t number = number_of<size_t>(text).value_or(0);
  return number <= kMost ? number : 0;
}

bool take_part(std::string_view part, PowerGossipSpec& spec) {
  if (part == "start=warm" || part == "start=cold" || part == "start=cosines") {
    spec.warm = part != "start=cold";
    spec.cosines = part == "start=cosines";
    return true;
  }
  const Spec setting(part, '=');
  const size_t number = positive(setting.value.value_or(""));
  if (setting.name == "rank") spec.rank = number;
  if (setting.name == "iterations") spec.iterations = static_cast<uint32_t>(number);
  return (setting.name == "rank" || setting.name == "iterations") && number > 0;
}

}  // namespace

Result<PowerGossipSpec> parse_power_gossip(const std::string& text) {
  const auto refused = [&](std::string_view part) {
    return user_error(
        fmt::format("compress is \"{}\": \"{}\" does not fit, accepted: "
                    "powergossip:rank=R,iterations=S,start=warm|cold|cosines, R and S from 1 to {}",
                    text, part, kMost));
  };
  PowerGossipSpec spec;
  if (text.empty()) return spec;
  const Spec given(text);
  if (given.name != "powergossip") return refused(given.name);
  for (const std::string_view part : given.parts(','))
    if (!take_part(part, spec)) return refused(part);
  return spec;
}

// --- the contents of a message

FactorPlan::FactorPlan(const ParameterLayout& layout, const PowerGossipSpec& spec,
                       FactorEntry entry)
    : spec_(spec), entry_(spec.cosines ? cosine_entry : std::move(entry)), dtype_(layout.dtype()) {
  for (const ParameterEntry& tensor : layout.entries()) {
    const size_t m = tensor.rows(), n = tensor.columns();
    const size_t r = std::min({spec.rank, m, n});
    if (tensor.shape.size() > 1 && (m + n) * r < m * n) {
      matrices_.push_back({tensor.offset, {m, n, r}, p_size_, q_size_});
      p_size_ += m * r;
      q_size_ += n * r;
      continue;
    }
    raw_size_ += tensor.size();
    if (!raw_.empty() && raw_.back().offset + raw_.back().count == tensor.offset) {
      raw_.back().count += tensor.size();
    } else {
      raw_.push_back({tensor.offset, tensor.size()});
    }
  }
}

size_t FactorPlan::message_size(uint32_t version) const {
  return (version % 2 == 0 ? p_size_ : q_size_) + (carries_raw(version) ? raw_size_ : 0);
}

size_t FactorPlan::largest_message() const {
  return std::max({message_size(0), message_size(1), message_size(spec_.iterations)});
}

// --- one edge

EdgeFactors::EdgeFactors(const Execution& execution, std::shared_ptr<const FactorPlan> plan,
                         uint64_t seed, int rank, const ExchangeKey& edge)
    : execution_(execution),
      plan_(std::move(plan)),
      edge_(edge),
      higher_(rank > edge.peer),
      p_(execution_, plan_->p_size_, plan_->dtype_),
      q_(execution_, plan_->q_size_, plan_->dtype_) {
  auto own = std::pair(static_cast<uint32_t>(rank), edge.incarnation);
  auto peer = std::pair(static_cast<uint32_t>(edge.peer), edge.peer_incarnation);
  if (higher_) std::swap(own, peer);
  const uint64_t ranks = Random(seed, own.first, Purpose::compression, peer.first).bits();
  seed_ = Random(ranks, own.second, Purpose::compression, peer.second).bits();
  prepare();
}

void EdgeFactors::encode(ConstVec x, Payload& out, Vec exact) const {
  const FactorPlan& plan = *plan_;
  const size_t size = plan.message_size(version());
  const Vec message = exact ? exact.part(0, size) : out.writable(plan.dtype_, size);
  out.version = version();
  for (const FactorPlan::Matrix& m : plan.matrices_) {
    const size_t p_count = m.shape.rows * m.shape.rank, q_count = m.shape.columns * m.shape.rank;
    const ConstVec tensor = x.part(m.offset, m.size());
    if (sends_p()) {
      times(execution_, m.shape, tensor, q_.vec().part(m.q, q_count), message.part(m.p, p_count));
    } else {
      transposed_times(execution_, m.shape, tensor, p_.vec().part(m.p, p_count),
                       message.part(m.q, q_count));
    }
  }
  if (plan.carries_raw(version())) {
    size_t place = sends_p() ? plan.p_size_ : plan.q_size_;
    for (const FactorPlan::Run& run : plan.raw_) {
      scale(execution_, 1, x.part(run.offset, run.count), message.part(place, run.count));
      place += run.count;
    }
  }
  if (exact) extrapolate(execution_, 0, message, {}, out.writable(DType::bf16, size));
}

bool EdgeFactors::jump(const Payload& sent, const Payload& received, double c, double alpha,
                       double alpha_tilde, Vec x, Vec x_tilde) {
  const FactorPlan& plan = *plan_;
  const bool same = sent.version == version() && received.version == version() &&
                    received.count == sent.count && received.dtype == sent.dtype;
  if (!same) {
    begin_anew(std::max({version(), sent.version, received.version}) + 1);
    return false;
  }
  const ConstVec mine = sent.vec(), theirs = received.vec();
  const auto cut = [](Vec v, size_t first, size_t count) {
    return v ? Vec(v.part(first, count)) : Vec{};
  };
  size_t place = sends_p() ? plan.p_size_ : plan.q_size_;
  const double sign = higher_ ? 1 : -1;
  if (place > 0) {  // the new factor, with the sign of the higher rank
    const Vec factor = sends_p() ? p_ : q_;
    fill(execution_, 0, factor);
    mix_and_jump(execution_, 0, -sign, 0, mine.part(0, place), theirs.part(0, place), factor, {});
  }
  for (const FactorPlan::Matrix& m : plan.matrices_) {
    mix_and_add_low_rank(execution_, m.shape, c, -sign * alpha, -sign * alpha_tilde,
                         std::as_const(p_).vec().part(m.p, m.shape.rows * m.shape.rank),
                         std::as_const(q_).vec().part(m.q, m.shape.columns * m.shape.rank),
                         x.part(m.offset, m.size()), cut(x_tilde, m.offset, m.size()));
  }
  if (plan.carries_raw(version())) {
    for (const FactorPlan::Run& run : plan.raw_) {
      mix_and_jump(execution_, c, alpha, alpha_tilde, mine.part(place, run.count),
                   theirs.part(place, run.count), x.part(run.offset, run.count),
                   cut(x_tilde, run.offset, run.count));
      place += run.count;
    }
  }
  ++version_;
  prepare();
  return true;
}

// Makes the input of the next iteration: draws its missing columns and orthonormalises it.
void EdgeFactors::prepare() {
  const bool is_q = sends_p();
  const std::vector<FactorPlan::Matrix>& matrices = plan_->matrices_;
  for (size_t k = 0; k < matrices.size(); ++k) {
    const LowRank& shape = matrices[k].shape;
    const size_t length = is_q ? shape.columns : shape.rows;
    const Vec factor = is_q ? q_.vec().part(matrices[k].q, length * shape.rank)
                            : p_.vec().part(matrices[k].p, length * shape.rank);
    for (size_t column = 0; column < shape.rank; ++column) {
      Random random(seed_, static_cast<uint32_t>(k), Purpose::compression,
                    version_ | static_cast<uint64_t>(column) << 32);
      renew(execution_, !plan_->spec_.warm, factor.part(column * length, length),
            [&](size_t row) { return plan_->entry_(random, row, column); });
    }
    orthonormalise(execution_, length, shape.rank, factor);
  }
}

void EdgeFactors::begin_anew(uint32_t version) {
  version_ = version;
  Buffer& input = sends_p() ? q_ : p_;
  scale(execution_, 0, input, input);
  prepare();
}

void EdgeFactors::name(RuleState& state) {
  const std::string edge = " of the edge to " + std::to_string(edge_.peer);
  state.add("P" + edge, p_, Follows::graph);
  state.add("Q" + edge, q_, Follows::graph);
  state.add("iterations" + edge, version_, Follows::graph);
}

// --- the edges of a rank

PairFactors::PairFactors(const RuleContext& context, DType sent_as)
    : execution_(context.execution),
      plan_(std::make_shared<FactorPlan>(context.layout,
                                         *parse_power_gossip(context.settings.compress))),
      seed_(context.seed),
      rank_(context.rank),
      sent_as_(sent_as) {
  const DType own = context.layout.dtype();
  if (sent_as != own) exact_ = Buffer(execution_, plan_->largest_message(), own);
}

EdgeFactors& PairFactors::at(const ExchangeKey& key) {
  const auto found =
      std::lower_bound(edges_.begin(), edges_.end(), key.peer,
                       [](const EdgeFactors& known, int peer) { return known.edge().peer < peer; });
  const bool known = found != edges_.end() && found->edge().peer == key.peer;
  if (known && found->edge().incarnation == key.incarnation &&
      found->edge().peer_incarnation == key.peer_incarnation)
    return *found;
  EdgeFactors anew(execution_, plan_, seed_, rank_, key);
  if (!known) return *edges_.insert(found, std::move(anew));
  *found = std::move(anew);
  return *found;
}

void PairFactors::write(const ExchangeKey& key, double c, ConstVec x, ConstVec x_tilde,
                        Payload& out) {
  if (!x_tilde) return at(key).encode(x, out, exact_);
  if (mixed_.size() == 0) mixed_ = Buffer(execution_, x.size, x.dtype);
  extrapolate(execution_, c, x, x_tilde, mixed_);
  at(key).encode(mixed_, out, exact_);
}

void PairFactors::name(RuleState& state) {
  for (EdgeFactors& edge : edges_)
    edge.name(state);
}

bool PairFactors::jump(const ExchangeKey& key, const Payload& sent, const Payload& received,
                       double c, double alpha, double alpha_tilde, Vec x, Vec x_tilde) {
  const bool jumped = at(key).jump(sent, received, c, alpha, alpha_tilde, x, x_tilde);
  reseeded_ += !jumped;
  return jumped;
}

}  // namespace grapevine
