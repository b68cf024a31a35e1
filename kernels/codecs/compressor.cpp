#include "kernels/codecs/compressor.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/base/registry.hpp"
#include "kernels/base/spec.hpp"
#include "kernels/codecs/tensor_codec.hpp"

namespace grapevine {

using codec::Kind;
using codec::Tensor;

struct Compressor::Plan {
  std::string spec;
  DType dtype = DType::f32;
  uint64_t seed = 0;
  size_t size = 0, bytes = 0, scratch_bytes = 0;
  std::vector<Tensor> tensors;
  std::vector<double> start;                    // of subspace iterations
  std::shared_ptr<const TensorCompressor> own;  // a registered kind, for all tensors

  codec::Call call(const Execution& on, uint32_t rank, uint64_t index, const Vec& scratch) const {
    if (on.device != nullptr) {
      GV_CHECK((own == nullptr));
      GV_CHECK(scratch.bytes() >= scratch_bytes);
      GV_CHECK(reinterpret_cast<uintptr_t>(scratch.data) % sizeof(double) == 0u);
    }
    const Draws draws{seed, rank, index};
    return {on, draws, passes::random_of(draws), static_cast<std::byte*>(scratch.data)};
  }
};

namespace {

constexpr const char* kAccepted =
    "accepted: identity, top-k:RATIO, random-k:RATIO, sign, low-rank:RANK, quantise:BITS";
constexpr std::string_view kNames[] = {"identity", "top-k",    "random-k",
                                       "sign",     "low-rank", "quantise"};

struct OwnKind {
  std::string name;
  std::function<Result<std::shared_ptr<const TensorCompressor>>(const std::string& value)> make;
};

Registry<OwnKind>& registered() {
  static Registry<OwnKind> kinds;
  return kinds;
}

std::string accepted() {
  std::string names = kAccepted;
  registered().for_each([&names](const OwnKind& kind) { names += ", " + kind.name; });
  return names;
}

struct Parsed {
  Kind kind;
  double ratio = 1;
  size_t rank = 1;
  int bits = 0;
  std::shared_ptr<const TensorCompressor> own = nullptr;
};

Error refused(const std::string& spec, const std::string& why) {
  return user_error("compress is \"" + spec + "\", " + why);
}

Result<Parsed> parse(const std::string& spec) {
  const Spec given(spec);
  const std::string name(given.name);
  const std::string_view value = given.value.value_or("");
  if (name == "identity" || name == "sign") {
    if (given.value) return refused(spec, "accepted: " + name + " without a value");
    return Parsed{name == "sign" ? Kind::sign : Kind::identity};
  }
  if (name == "top-k" || name == "random-k") {
    const auto ratio = number_of<double>(value);
    if (!ratio || !(*ratio > 0 && *ratio <= 1)) {
      return refused(spec, "accepted: a ratio above 0 and up to 1, e.g. " + name + ":0.01");
    }
    return Parsed{name == "top-k" ? Kind::top_k : Kind::random_k, *ratio};
  }
  if (name == "low-rank") {
    const auto rank = number_of<uint32_t>(value);
    if (!rank || *rank < 1) return refused(spec, "accepted: a rank from 1 on, e.g. low-rank:2");
    return Parsed{Kind::low_rank, 1, *rank};
  }
  if (name == "quantise") {
    const auto bits = number_of<int>(value);
    if (!bits || *bits < 1 || *bits > 16) {
      return refused(spec, "accepted: 1 to 16 bits, e.g. quantise:4");
    }
    return Parsed{Kind::quantise, 1, 1, *bits};
  }
  const OwnKind* own = registered().find(name);
  if (own == nullptr) return refused(spec, accepted());
  auto made = own->make(std::string(value));
  if (!made) return refused(spec, made.error().message);
  if (*made == nullptr) return refused(spec, "whose maker returned none");
  return Parsed{.kind = Kind::identity, .own = std::move(*made)};
}

Tensor plan_tensor(const Parsed& spec, const ParameterEntry& entry) {
  Tensor t{spec.kind, entry.offset, entry.size(), entry.rows(), entry.columns()};
  t.bits = spec.bits;
  if (spec.kind == Kind::top_k || spec.kind == Kind::random_k) {
    const double wanted = std::floor(spec.ratio * static_cast<double>(t.size));
    t.count = std::max<size_t>(1, static_cast<size_t>(wanted));
  } else if (spec.kind == Kind::low_rank) {
    t.count = spec.rank;
    const bool pays = (t.rows + t.columns) * spec.rank < t.size;
    if (entry.shape.size() <= 1 || !pays) t.kind = Kind::identity;
  }
  return t;
}

/// Numbers in [-1, 1), equal on all nodes.
std::vector<double> start_of(const std::vector<Tensor>& tensors) {
  size_t most = 0;
  for (const Tensor& t : tensors) {
    if (t.kind == Kind::low_rank) most = std::max(most, t.columns * t.count);
  }
  std::vector<double> start(most);
  Random random = passes::random_of(codec::kStart);
  for (double& value : start)
    value = random.uniform(-1, 1);
  return start;
}

}  // namespace

Result<Compressor> Compressor::make(const std::string& spec, const ParameterLayout& layout,
                                    uint64_t seed) {
  const auto parsed = parse(spec);
  if (!parsed) return parsed.error();
  auto plan = std::make_shared<Plan>();
  plan->spec = spec;
  plan->dtype = layout.dtype();
  plan->seed = seed;
  plan->size = layout.size();
  uint64_t draws = 0;
  for (const ParameterEntry& entry : layout.entries()) {
    if (entry.size() == 0) continue;
    Tensor t = plan_tensor(*parsed, entry);
    t.at_byte = plan->bytes;
    t.bytes = parsed->own ? parsed->own->bytes(t.rows, t.columns, plan->dtype)
                          : codec::bytes_of(t, plan->dtype);
    plan->bytes += t.bytes;
    plan->scratch_bytes =
        std::max(plan->scratch_bytes, codec::scratch_bytes_of(t, size_of(plan->dtype)));
    t.first_draw = draws;
    if (t.kind == Kind::random_k) draws += t.count;
    plan->tensors.push_back(t);
  }
  plan->start = start_of(plan->tensors);
  plan->own = parsed->own;
  return Compressor(std::move(plan));
}

Status register_compressor(
    const std::string& name,
    std::function<Result<std::shared_ptr<const TensorCompressor>>(const std::string& value)> make) {
  if (!make) return user_error("a compressor without make cannot be registered");
  const bool taken = std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
  return registered().add("compressor", {name, std::move(make)}, taken);
}

size_t Compressor::bytes() const { return plan_->bytes; }

size_t Compressor::scratch_bytes() const { return plan_->scratch_bytes; }

bool Compressor::runs_on_devices() const { return plan_->own == nullptr; }

const std::string& Compressor::spec() const { return plan_->spec; }

void Compressor::encode(const Execution& on, ConstVec v, uint32_t rank, uint64_t index,
                        std::byte* out, Vec scratch) const {
  GV_CHECK(v.size == plan_->size);
  GV_CHECK((v.dtype == plan_->dtype));
  codec::Call call = plan_->call(on, rank, index, scratch);
  for (const Tensor& t : plan_->tensors) {
    const ConstVec tensor = v.part(t.offset, t.size);
    if (plan_->own) {
      plan_->own->encode(tensor, t.rows, t.columns, out + t.at_byte);
    } else {
      codec::encode(call, t, tensor, plan_->start, out + t.at_byte);
    }
  }
}

void Compressor::decode(const Execution& on, const std::byte* in, uint32_t rank, uint64_t index,
                        double a, Vec y, Vec scratch) const {
  GV_CHECK(y.size == plan_->size);
  GV_CHECK((y.dtype == plan_->dtype));
  codec::Call call = plan_->call(on, rank, index, scratch);
  for (const Tensor& t : plan_->tensors) {
    const Vec tensor = y.part(t.offset, t.size);
    if (plan_->own) {
      plan_->own->decode(in + t.at_byte, t.rows, t.columns, a, tensor);
    } else {
      codec::decode(call, t, in + t.at_byte, a, tensor);
    }
  }
}

}  // namespace grapevine
