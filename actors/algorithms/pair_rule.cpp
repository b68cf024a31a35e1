#include "actors/algorithms/pair_rule.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "actors/algorithms/edge_factors.hpp"
#include "actors/algorithms/random_part.hpp"
#include "kernels/base/spec.hpp"
#include "kernels/memory/hash.hpp"

namespace grapevine {

/// Random parts, the same at both ends of an exchange.
class PairParts {
 public:
  PairParts(const RuleContext& c, DType sent_as)
      : execution_(c.execution),
        rank_(c.rank),
        random_(c),
        sent_as_(sent_as),
        part_(execution_, random_.size(), c.layout.dtype()),
        whole_(execution_, c.layout.size(), c.layout.dtype()),
        zeros_(execution_, c.layout.size(), c.layout.dtype()) {}

  size_t bytes() const { return random_.size() * size_of(sent_as_); }

  void write(const ExchangeKey& key, double c, ConstVec x, ConstVec x_tilde, Payload& out) {
    extrapolate(execution_, c, x, x_tilde, whole_);
    random_.take(number_of(key), whole_, part_);
    extrapolate(execution_, 0, part_, {}, out.writable(sent_as_, part_.size()));
  }

  bool jump(const ExchangeKey& key, const Payload& sent, const Payload& received, double c,
            double alpha, double alpha_tilde, Vec x, Vec x_tilde) {
    for (const Payload* payload : {&sent, &received})
      if (payload->dtype != sent_as_ || payload->count != part_.size()) return false;
    fill(execution_, 0, part_);  // the difference of the parts
    mix_and_jump(execution_, 0, -1, 0, sent.vec(), received.vec(), part_, {});
    fill(execution_, 0, whole_);
    random_.add(number_of(key), 1, part_, whole_);
    mix_and_jump(execution_, c, alpha, alpha_tilde, whole_, zeros_, x, x_tilde);
    return true;
  }

 private:
  uint64_t number_of(const ExchangeKey& key) const {
    const bool is_lower = rank_ < key.peer;
    const uint32_t lower = is_lower ? key.incarnation : key.peer_incarnation;
    const uint32_t higher = is_lower ? key.peer_incarnation : key.incarnation;
    uint64_t number = folded(0, static_cast<uint64_t>(std::min(rank_, key.peer)));
    number = folded(number, static_cast<uint64_t>(std::max(rank_, key.peer)));
    number = folded(number, uint64_t{lower} << 32 | higher);
    return folded(number, key.number);
  }

  Execution execution_;
  int rank_;
  RandomPart random_;
  DType sent_as_;
  Buffer part_;           // x or m there
  Buffer whole_, zeros_;  // x mixed or m
};

/// One of the two is set.
struct PairRule::Lossy {
  std::unique_ptr<PairFactors> factors;
  std::unique_ptr<PairParts> parts;
};

PairRule::PairRule(const RuleContext& context)
    : PairwiseRule(context.execution),
      optimizer_(execution_, context.layout, context.settings.optimizer),
      x_(execution_, context.layout.size(), context.layout.dtype()),
      sent_as_(context.settings.wire == Wire::bf16 ? DType::bf16 : x_.dtype()) {
  const std::string& compress = context.settings.compress;
  if (!compress.empty()) lossy_ = std::make_unique<Lossy>();
  if (Spec(compress).name == "random") {
    lossy_->parts = std::make_unique<PairParts>(context, sent_as_);
  } else if (!compress.empty()) {
    lossy_->factors = std::make_unique<PairFactors>(context, sent_as_);
  }
  scale(execution_, 1, context.x, x_);
}

PairRule::PairRule(PairRule&&) noexcept = default;
PairRule::~PairRule() = default;

PairFactors* PairRule::factors() const { return lossy_ ? lossy_->factors.get() : nullptr; }

// Block by block, in the cache. A script may write the front meanwhile, so the length and the step
// are those of a copy.
double PairRule::take_by(double c, Vec front, Vec base, Vec x_tilde, Vec finite) {
  if (execution_.device != nullptr) {
    mix_and_take(execution_, c, front, base, x_, x_tilde, finite);
    return 0;
  }
  std::atomic<bool> all_finite{true};
  const double square = sum_of_blocks(execution_, x_, [&](size_t first, size_t last) {
    const size_t count = last - first;
    const auto block = [&](const Vec& of) { return of ? of.part(first, count) : Vec(); };
    const Vec given = block(front), from = block(base);
    alignas(64) double memory[kLargestBlock];
    const Vec copy(memory, count, front.dtype);
    std::memcpy(copy.data, given.data, copy.bytes());
    const double moved = square_distance({}, copy, from);
    if (!mix_and_take({}, c, copy, from, block(x_), block(x_tilde))) all_finite = false;
    std::memcpy(given.data, copy.data, copy.bytes());
    return moved;
  });
  fill(execution_, all_finite ? 1 : 0, finite);
  return std::sqrt(square);
}

void PairRule::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  optimizer_.reset(execution_);
}

RuleState PairRule::state(double) {
  RuleState state;
  state.add("x", x_, Follows::model);
  optimizer_.name(state, Follows::model);
  if (factors() != nullptr) factors()->name(state);
  return state;
}

void PairRule::meet(const ExchangeKey& key) {
  if (factors() != nullptr) factors()->meet(key);
}

void PairRule::add_conserved(double, Vec sum) { accumulate(execution_, x_, sum); }

size_t PairRule::snapshot_bytes() const {
  if (!lossy_) return x_.size() * size_of(sent_as_);
  return lossy_->parts ? lossy_->parts->bytes() : lossy_->factors->bytes();
}

RuleCounts PairRule::counts() const {
  return {.reseeded = factors() != nullptr ? factors()->reseeded() : 0};
}

void PairRule::write(const ExchangeKey& key, double c, ConstVec x_tilde, ConstVec front,
                     Payload& out) {
  const ConstVec x = front ? front : x_.vec(), twin = front ? ConstVec{} : x_tilde;
  if (!lossy_) return extrapolate(execution_, c, x, twin, out.writable(sent_as_, x.size));
  if (lossy_->parts) return lossy_->parts->write(key, c, x, twin, out);
  lossy_->factors->write(key, c, x, twin, out);
}

bool PairRule::apply(const ExchangeKey& key, const Payload& sent, const Payload& received, double c,
                     double alpha, double alpha_tilde, Vec x_tilde) {
  if (factors() != nullptr)
    return factors()->jump(key, sent, received, c, alpha, alpha_tilde, x_, x_tilde);
  if (sent.version != received.version) return false;
  if (lossy_) return lossy_->parts->jump(key, sent, received, c, alpha, alpha_tilde, x_, x_tilde);
  mix_and_jump(execution_, c, alpha, alpha_tilde, sent.vec(), received.vec(), x_, x_tilde);
  return true;
}

}  // namespace grapevine
