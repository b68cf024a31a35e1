// The averaged model as a node tells it to a console, and as a file.
#include <algorithm>

#include "app/node_status_json.hpp"
#include "models/model_file.hpp"

namespace grapevine {
namespace {

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64_of(const unsigned char* data, size_t size) {
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (size_t k = 0; k < size; k += 3) {
    const size_t n = std::min<size_t>(3, size - k);
    uint32_t word = 0;
    for (size_t b = 0; b < 3; ++b)
      word = word << 8 | (b < n ? data[k + b] : 0u);
    for (size_t c = 0; c < 4; ++c)
      text += c <= n ? kLetters[word >> (18 - 6 * c) & 63] : '=';
  }
  return text;
}

std::vector<unsigned char> bytes_of(const std::string& text) {
  unsigned char value[256];
  std::fill(std::begin(value), std::end(value), static_cast<unsigned char>(64));
  for (unsigned char k = 0; k < 64; ++k)
    value[static_cast<unsigned char>(kLetters[k])] = k;
  std::vector<unsigned char> bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    const unsigned char v = value[static_cast<unsigned char>(c)];
    if (v == 64) break;
    word = word << 6 | v;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<unsigned char>(word >> bits & 255));
  }
  return bytes;
}

}  // namespace

Json snapshot_json(const ParameterLayout& layout, const Buffer& mean, int ranks) {
  Json tensors = Json::array();
  for (const ParameterEntry& entry : layout.entries())
    tensors.push_back({{"name", entry.name}, {"shape", entry.shape}});
  const ConstVec x = mean.vec();
  return {{"ranks", ranks},
          {"dtype", layout.dtype() == DType::f64 ? "f64" : "f32"},
          {"tensors", tensors},
          {"data", base64_of(static_cast<const unsigned char*>(x.data), x.bytes())}};
}

Status write_snapshot(const Json& snapshot, const std::string& path) {
  const Error malformed = world_error("the node's answer is not a snapshot");
  if (!snapshot.is_object() || !snapshot.contains("tensors") || !snapshot.contains("data") ||
      !snapshot["tensors"].is_array() || !snapshot["data"].is_string())
    return malformed;
  const bool wide = snapshot.value("dtype", "") == "f64";
  const std::vector<unsigned char> bytes = bytes_of(snapshot["data"].get<std::string>());
  std::vector<ModelTensor> tensors;
  size_t at = 0;
  for (const Json& entry : snapshot["tensors"]) {
    if (!entry.is_object() || !entry.contains("shape") || !entry["shape"].is_array())
      return malformed;
    ModelTensor tensor;
    tensor.name = entry.value("name", "");
    tensor.type = wide ? TensorType::f64 : TensorType::f32;
    for (const Json& size : entry["shape"]) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > bytes.size()) return malformed;
      tensor.shape.push_back(size.get<int64_t>());
    }
    if (tensor.bytes() > bytes.size() - at) return malformed;
    tensor.data = bytes.data() + at;
    at += tensor.bytes();
    tensors.push_back(std::move(tensor));
  }
  if (at != bytes.size()) return malformed;
  return write_safetensors(path, tensors);
}

}  // namespace grapevine
