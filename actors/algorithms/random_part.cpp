#include "actors/algorithms/random_part.hpp"

#include "kernels/base/spec.hpp"

namespace grapevine {

namespace {
constexpr uint32_t kNobody = 0;  // a rank for the draws, the same for all ranks
}

Result<Compressor> random_part(const std::string& spec, const ParameterLayout& layout,
                               uint64_t seed) {
  const Spec given(spec);
  const auto share = number_of<double>(given.value.value_or(""));
  if (given.name != "random" || !share || !(*share > 0 && *share <= 1))
    return user_error("compress is \"" + spec +
                      "\", accepted: random:P, the share of the parameters that is sent, above 0 "
                      "and at most 1");
  return Compressor::make("random-k:" + std::string(*given.value), layout, seed);
}

RandomPart::RandomPart(const RuleContext& context)
    : execution_(context.execution),
      compressor_(*random_part(context.settings.compress, context.layout, context.seed)),
      size_(compressor_.bytes() / size_of(context.layout.dtype())) {
  if (execution_.device != nullptr)
    scratch_ = Buffer(execution_, compressor_.scratch_bytes(), DType::bytes);
}

void RandomPart::take(uint64_t number, ConstVec x, Vec out) {
  GV_CHECK(out.size == size_);
  compressor_.encode(execution_, x, kNobody, number, static_cast<std::byte*>(out.data), scratch_);
}

void RandomPart::add(uint64_t number, double a, ConstVec part, Vec x) {
  GV_CHECK(part.size == size_);
  compressor_.decode(execution_, static_cast<const std::byte*>(part.data), kNobody, number, a, x,
                     scratch_);
}

}  // namespace grapevine
