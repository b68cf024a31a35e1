#include "models/files/model_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace grapevine {
namespace {

TensorType type_of(DType dtype) { return dtype == DType::f32 ? TensorType::f32 : TensorType::f64; }

std::string shown(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t d : shape)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", d);
  return text + "]";
}

}  // namespace

size_t size_of(TensorType type) { return type == TensorType::f32 ? 4 : 8; }

size_t ModelTensor::elements() const {
  size_t product = 1;
  for (const int64_t d : shape)
    product *= static_cast<size_t>(d);
  return product;
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

Status load_parameters(const std::string& path, const ParameterLayout& layout, Vec x) {
  GV_CHECK(x.size == layout.size());
  GV_CHECK(x.dtype == layout.dtype());
  const Result<std::vector<StoredTensor>> stored = read_safetensors(path);
  if (!stored) return stored.error();
  std::vector<const StoredTensor*> found;
  for (const ParameterEntry& entry : layout.entries()) {
    const auto at = std::find_if(stored->begin(), stored->end(),
                                 [&entry](const StoredTensor& t) { return t.name == entry.name; });
    if (at == stored->end()) {
      return world_error(
          fmt::format("{} has no tensor {} of shape {}", path, entry.name, shown(entry.shape)));
    }
    if (at->shape != entry.shape || at->type != type_of(layout.dtype())) {
      return world_error(fmt::format(
          "{}: tensor {} has shape {} of {}-byte numbers, accepted: {} of {}", path, entry.name,
          shown(at->shape), size_of(at->type), shown(entry.shape), size_of(layout.dtype())));
    }
    found.push_back(&*at);
  }
  for (size_t k = 0; k < found.size(); ++k) {
    const ParameterEntry& entry = layout.entries()[k];
    const Vec to = x.part(entry.offset, entry.size());
    std::memcpy(to.data, found[k]->bytes.data(), to.bytes());
  }
  return Done{};
}

}  // namespace grapevine
