// Model files: named tensors on the disk, in the two formats that Python opens without trusting the
// file.
//
// safetensors: a u64 length, a JSON header, raw little-endian data. `safetensors.torch.load_file`
// reads it. State dict: the file that torch.save writes for a plain dict of tensors, a zip of
// stored records with a pickle that names only torch._utils._rebuild_tensor_v2 and storages.
// `torch.load(path, weights_only=True)` reads it. Both are written without LibTorch; equal tensors
// give equal bytes. Only for little-endian machines. tensor_file.hpp reads them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

/// Types of numbers in files, floats first. other: no plain number (text, complex numbers,
/// objects).
enum class TensorType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  other
};

/// The names of a type; an empty name: the format has no such type.
struct TensorTypeNames {
  TensorType type;
  size_t bytes;
  const char *in_safetensors, *in_numpy, *in_torch, *torch_storage;
};

std::span<const TensorTypeNames> tensor_types();  // all but `other`
size_t size_of(TensorType);                       // in bytes; 0: `other`

struct ModelTensor {  // owns nothing
  std::string name;
  std::vector<int64_t> shape;  // empty: one number
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

bool is_float(TensorType);

/// "[3, 4]".
std::string shown(const std::vector<int64_t>& shape);

/// Copies the numbers into the type of `to`, rounded if that is narrower. REQUIRES: the same number
/// of elements; the source is not `other`; `to` is f32 or f64.
void copy_numbers(const StoredTensor&, Vec to);

/// The file appears complete or not at all. Errors (world): the path and why it cannot be written.
Status write_safetensors(const std::string& path, const std::vector<ModelTensor>&);
Status write_state_dict(const std::string& path, const std::vector<ModelTensor>&);

/// The header of a safetensors file with these tensors; the file continues with their bytes, in
/// order.
std::string safetensors_head(const std::vector<ModelTensor>&);

/// Reads the parameters of a layout from a safetensors file; ignores further tensors in it. Writes
/// x only if all are there. Errors (world): those of tensor_file.hpp; a tensor is missing, or its
/// shape or type is not the layout's.
Status load_parameters(const std::string& path, const ParameterLayout&, Vec x);

}  // namespace grapevine
