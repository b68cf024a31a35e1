// TensorFile: a file of named tensors; each is read on demand.
//
// The announced sizes are checked against the file before memory is allocated. Unused entries are
// never read, such as arrays of text, buffers of types without a name, or an optimizer's state.
//
//   safetensors   all types of numbers
//   .npz          numpy.savez and savez_compressed: numbers in either byte order, in C's or
//                 Fortran's order
//   torch.save    a dict of tensors (a state dict) in a zip, or in the older format. It is read
//                 without LibTorch and without running anything (pickle.hpp). Views become
//                 contiguous. If a dict has its state dict under a usual name ("state_dict",
//                 "model", ...), that one is read.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/files/model_file.hpp"

namespace grapevine {

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape = {};  // .npz: empty, only read() finds the shape
  TensorType type = TensorType::other;
  std::string type_name = {};  // the file's word for it
  size_t place = 0;            // its position in the file, for the reader
};

/// The reader of one format. An implementation holds the open file.
class TensorReader {
 public:
  virtual ~TensorReader() = default;
  /// Errors (world) do not name the file.
  virtual Result<StoredTensor> read(const TensorInfo&) const = 0;
};

class TensorFile {
 public:
  /// The first bytes, not the name, show the format. Errors (world): the file is missing, no
  /// regular file, cut or damaged, or in none of the formats.
  static Result<TensorFile> open(const std::string& path);

  const std::string& path() const { return path_; }

  /// In the order of the file; each name once.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(const std::string& name) const;  // null: there is none

  /// Error (world): its type is no number, its bytes are cut or damaged, or the memory is too small
  /// for them.
  Result<StoredTensor> read(const TensorInfo&) const;

  TensorFile(std::string path, std::vector<TensorInfo> tensors, std::unique_ptr<TensorReader>);

 private:
  std::string path_;
  std::vector<TensorInfo> tensors_;
  std::unique_ptr<TensorReader> reader_;
};

/// All tensors of a file.
Result<std::vector<StoredTensor>> read_tensors(const std::string& path);

/// The tensors of a safetensors file in memory; errors name it `path`.
Result<std::vector<StoredTensor>> parse_safetensors(const std::string& path,
                                                    std::span<const uint8_t> file);

class InputFile;  // models/files/file.hpp

// TensorFile::open() chooses one of these. Each takes over the open file.
Result<TensorFile> open_safetensors(InputFile);
Result<TensorFile> open_npz(InputFile);
Result<TensorFile> open_state_dict(InputFile);

}  // namespace grapevine
