#include "models/files/model_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "models/files/tensor_file.hpp"

namespace grapevine {
namespace {

constexpr TensorTypeNames kTypes[] = {
    {TensorType::f32, 4, "F32", "f4", "float32", "FloatStorage"},
    {TensorType::f64, 8, "F64", "f8", "float64", "DoubleStorage"},
    {TensorType::f16, 2, "F16", "f2", "float16", "HalfStorage"},
    {TensorType::bf16, 2, "BF16", "", "bfloat16", "BFloat16Storage"},
    {TensorType::f8_e4m3, 1, "F8_E4M3", "", "float8_e4m3fn", ""},
    {TensorType::f8_e5m2, 1, "F8_E5M2", "", "float8_e5m2", ""},
    {TensorType::i64, 8, "I64", "i8", "int64", "LongStorage"},
    {TensorType::i32, 4, "I32", "i4", "int32", "IntStorage"},
    {TensorType::i16, 2, "I16", "i2", "int16", "ShortStorage"},
    {TensorType::i8, 1, "I8", "i1", "int8", "CharStorage"},
    {TensorType::u64, 8, "U64", "u8", "uint64", ""},
    {TensorType::u32, 4, "U32", "u4", "uint32", ""},
    {TensorType::u16, 2, "U16", "u2", "uint16", ""},
    {TensorType::u8, 1, "U8", "u1", "uint8", "ByteStorage"},
    {TensorType::boolean, 1, "BOOL", "b1", "bool", "BoolStorage"},
};

TensorType type_of(DType dtype) { return dtype == DType::f32 ? TensorType::f32 : TensorType::f64; }

float from_half(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31, exponent = half >> 10 & 31;
  const uint32_t fraction = half & 1023u;
  if (exponent == 0) {  // zero or subnormal
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float from_brain(uint16_t brain) { return std::bit_cast<float>(uint32_t{brain} << 16); }

// Four exponent bits and no infinity; all bits one is NaN.
float from_e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  if ((bits & 127) == 127) return std::nanf("");
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                    : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (bits & 128) != 0 ? -value : value;
}

float from_e5m2(uint8_t bits) { return from_half(static_cast<uint16_t>(bits << 8)); }

template <class From, class To, class Number>
void copy_as(const std::vector<uint8_t>& from, To* to, Number&& number) {
  for (size_t k = 0; k < from.size() / sizeof(From); ++k) {
    From value;
    std::memcpy(&value, from.data() + k * sizeof value, sizeof value);
    to[k] = static_cast<To>(number(value));
  }
}

template <class From, class To>
void copy_as(const std::vector<uint8_t>& from, To* to) {
  copy_as<From>(from, to, [](From value) { return value; });
}

template <class To>
void copy_all(const StoredTensor& t, To* to) {
  switch (t.type) {
    case TensorType::f32: return copy_as<float>(t.bytes, to);
    case TensorType::f64: return copy_as<double>(t.bytes, to);
    case TensorType::f16: return copy_as<uint16_t>(t.bytes, to, from_half);
    case TensorType::bf16: return copy_as<uint16_t>(t.bytes, to, from_brain);
    case TensorType::f8_e4m3: return copy_as<uint8_t>(t.bytes, to, from_e4m3);
    case TensorType::f8_e5m2: return copy_as<uint8_t>(t.bytes, to, from_e5m2);
    case TensorType::i64: return copy_as<int64_t>(t.bytes, to);
    case TensorType::i32: return copy_as<int32_t>(t.bytes, to);
    case TensorType::i16: return copy_as<int16_t>(t.bytes, to);
    case TensorType::i8: return copy_as<int8_t>(t.bytes, to);
    case TensorType::u64: return copy_as<uint64_t>(t.bytes, to);
    case TensorType::u32: return copy_as<uint32_t>(t.bytes, to);
    case TensorType::u16: return copy_as<uint16_t>(t.bytes, to);
    case TensorType::u8: return copy_as<uint8_t>(t.bytes, to);
    case TensorType::boolean:
      return copy_as<uint8_t>(t.bytes, to, [](uint8_t b) { return b != 0; });
    case TensorType::other: break;
  }
  GV_CHECK((t.type != TensorType::other));
}

}  // namespace

std::span<const TensorTypeNames> tensor_types() { return kTypes; }

size_t size_of(TensorType type) {
  for (const TensorTypeNames& known : kTypes)
    if (known.type == type) return known.bytes;
  return 0;
}

bool is_float(TensorType type) { return type <= TensorType::f8_e5m2; }

size_t ModelTensor::elements() const {
  size_t product = 1;
  for (const int64_t d : shape)
    product *= static_cast<size_t>(d);
  return product;
}

std::string shown(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t d : shape)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", d);
  return text + "]";
}

std::vector<ModelTensor> tensors_of(const ParameterLayout& layout, ConstVec x) {
  GV_CHECK(x.size == layout.size());
  GV_CHECK(x.dtype == layout.dtype());
  std::vector<ModelTensor> tensors;
  for (const ParameterEntry& entry : layout.entries()) {
    tensors.push_back({entry.name, entry.shape, type_of(layout.dtype()),
                       x.part(entry.offset, entry.size()).data});
  }
  return tensors;
}

void copy_numbers(const StoredTensor& tensor, Vec to) {
  GV_CHECK(tensor.bytes.size() == to.size * size_of(tensor.type));
  to.dtype == DType::f64 ? copy_all(tensor, to.as<double>()) : copy_all(tensor, to.as<float>());
}

Status load_parameters(const std::string& path, const ParameterLayout& layout, Vec x) {
  GV_CHECK(x.size == layout.size());
  GV_CHECK(x.dtype == layout.dtype());
  const Result<TensorFile> file = TensorFile::open(path);
  if (!file) return file.error();
  std::vector<StoredTensor> found;
  for (const ParameterEntry& entry : layout.entries()) {
    const TensorInfo* at = file->find(entry.name);
    if (at == nullptr) {
      return world_error(
          fmt::format("{} has no tensor {} of shape {}", path, entry.name, shown(entry.shape)));
    }
    if (at->shape != entry.shape || at->type != type_of(layout.dtype())) {
      return world_error(fmt::format(
          "{}: tensor {} has shape {} of {}-byte numbers, accepted: {} of {}", path, entry.name,
          shown(at->shape), size_of(at->type), shown(entry.shape), size_of(layout.dtype())));
    }
    auto tensor = file->read(*at);
    if (!tensor) return tensor.error();
    found.push_back(std::move(*tensor));
  }
  for (size_t k = 0; k < found.size(); ++k) {
    const ParameterEntry& entry = layout.entries()[k];
    copy_numbers(found[k], x.part(entry.offset, entry.size()));
  }
  return Done{};
}

}  // namespace grapevine
