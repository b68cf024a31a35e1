// The averaged model as a node's answer to a console, and as a file.
#include <algorithm>

#include "app/output/node_status_json.hpp"
#include "models/files/model_file.hpp"

namespace grapevine {

Json snapshot_json(const ParameterLayout& layout, const ParameterLayout& statistics,
                   const Mean& mean) {
  GV_CHECK((statistics.size() == 0 || statistics.dtype() == layout.dtype()));
  Json tensors = Json::array();
  for (const ParameterLayout* part : {&layout, &statistics})
    for (const ParameterEntry& entry : part->entries())
      tensors.push_back({{"name", entry.name}, {"shape", entry.shape}});
  return {{"mean", mean.number},
          {"ranks", mean.ranks},
          {"dtype", layout.dtype() == DType::f64 ? "f64" : "f32"},
          {"bytes", layout.bytes() + statistics.bytes()},
          {"tensors", tensors}};
}

Status write_snapshot(const Json& snapshot, const std::string& bytes, const std::string& path) {
  const Error malformed = world_error("the node's answer is not a snapshot");
  if (!snapshot.is_object() || !snapshot.contains("tensors") || !snapshot["tensors"].is_array())
    return malformed;
  const bool wide = snapshot.value("dtype", "") == "f64";
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
