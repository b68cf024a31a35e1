// Model files: named tensors on the disk, in the two formats that Python opens without trusting the
// file.
//
// safetensors: a u64 length, a JSON header, raw little-endian data; `safetensors.torch.load_file`
// reads it. State dict: what torch.save writes for a plain dict of tensors, a zip of stored records
// with a pickle that names only torch._utils._rebuild_tensor_v2 and storages; `torch.load(path,
// weights_only=True)` reads it. Both are written by hand, without LibTorch, byte for byte the same
// for the same tensors. Little-endian machines.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

enum class TensorType { f32, f64, i64 };

size_t size_of(TensorType);

struct ModelTensor {  // owns nothing
  std::string name;
  std::vector<int64_t> shape;  // empty: a single number
  TensorType type = TensorType::f32;
  const void* data = nullptr;

  size_t elements() const;
  size_t bytes() const { return elements() * size_of(type); }
};

struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  TensorType type = TensorType::f32;
  std::vector<uint8_t> bytes;
};

/// The entries of a layout as tensors that point into x.
std::vector<ModelTensor> tensors_of(const ParameterLayout&, ConstVec x);

/// The file appears whole or not at all. Errors (world): the path and why it cannot be written.
Status write_safetensors(const std::string& path, const std::vector<ModelTensor>&);
Status write_state_dict(const std::string& path, const std::vector<ModelTensor>&);

/// What a safetensors file of these tensors begins with; their bytes follow, one after the other.
std::string safetensors_head(const std::vector<ModelTensor>&);

/// In the order of the file, each name once, and never more bytes than the file has. Errors
/// (world): it is missing, cut, or not a safetensors file of F32, F64 and I64.
Result<std::vector<StoredTensor>> read_safetensors(const std::string& path);
/// The same of a file in memory; errors call it `path`.
Result<std::vector<StoredTensor>> parse_safetensors(const std::string& path,
                                                    std::span<const uint8_t> file);

/// Reads the parameters of a layout; further tensors in the file are ignored. x is written only if
/// all are there. Errors (world): as above, or a tensor that is missing, or of another shape or
/// type than the layout's.
Status load_parameters(const std::string& path, const ParameterLayout&, Vec x);

}  // namespace grapevine
