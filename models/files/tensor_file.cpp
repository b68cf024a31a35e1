#include "models/files/tensor_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "models/files/file.hpp"
#include "models/files/zip.hpp"

namespace grapevine {

namespace {

/// Of a zip: whether numpy has written it. One of torch.save has no such record.
bool holds_arrays(const InputFile& file) {
  const auto archive = Zip::open(file);
  return archive && std::any_of(archive->entries().begin(), archive->entries().end(),
                                [](const ZipEntry& e) { return e.name.ends_with(".npy"); });
}

}  // namespace

TensorFile::TensorFile(std::string path, std::vector<TensorInfo> tensors,
                       std::unique_ptr<TensorReader> reader)
    : path_(std::move(path)), tensors_(std::move(tensors)), reader_(std::move(reader)) {}

Result<TensorFile> TensorFile::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  const auto first = file->begin(64);
  if (!first) return first.error();
  const std::string_view text(reinterpret_cast<const char*>(first->data()), first->size());
  if (text.starts_with("PK\x03\x04"))
    return holds_arrays(*file) ? open_npz(std::move(*file)) : open_state_dict(std::move(*file));
  // A safetensors file begins with the length of its header; the header begins with a brace.
  if (text.size() > 8 && text[8] == '{') return open_safetensors(std::move(*file));
  if (text.starts_with('\x80')) return open_state_dict(std::move(*file));
  if (text.size() > 8 || text.empty())  // a shorter file may be a cut one
    return world_error(
        fmt::format("{} {}, accepted: a .safetensors or .npz file, or a state dict of torch.save",
                    path, text.empty() ? "is empty" : "does not begin as a file of tensors"));
  return open_safetensors(std::move(*file));
}

const TensorInfo* TensorFile::find(const std::string& name) const {
  for (const TensorInfo& info : tensors_)
    if (info.name == name) return &info;
  return nullptr;
}

Result<StoredTensor> TensorFile::read(const TensorInfo& info) const {
  auto tensor = reader_->read(info);
  if (!tensor) return world_error(fmt::format("{}: {}", path_, tensor.error().message));
  return tensor;
}

Result<std::vector<StoredTensor>> read_tensors(const std::string& path) {
  const auto file = TensorFile::open(path);
  if (!file) return file.error();
  std::vector<StoredTensor> all;
  for (const TensorInfo& info : file->tensors()) {
    auto tensor = file->read(info);
    if (!tensor) return tensor.error();
    all.push_back(std::move(*tensor));
  }
  return all;
}

}  // namespace grapevine
