// TensorFile: a file of named tensors, each read on demand.
//
// The announced sizes are checked against the file before memory is touched. Unused entries are
// never read: arrays of text, buffers of types without a name, an optimizer's state.
//
//   safetensors   all types of numbers
//   .npz          numpy.savez and savez_compressed: numbers of either byte order, C's and Fortran's
//   torch.save    a dict of tensors (a state dict) in a zip, or in the older format, without
//                 LibTorch
//                 and without running anything (pickle.hpp). Views become contiguous. If a dict has
//   its state dict under a usual name ("state_dict", "model", ...), that one is taken.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/files/model_file.hpp"

namespace grapevine {

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape = {};  // empty where only read() finds it out: of .npz
  TensorType type = TensorType::other;
  std::string type_name = {};  // as the file has it
  size_t place = 0;            // in the file, for its reader
};

/// One format's. An implementation holds the open file.
class TensorReader {
 public:
  virtual ~TensorReader() = default;
  /// Error (world): without the file's name.
  virtual Result<StoredTensor> read(const TensorInfo&) const = 0;
};

class TensorFile {
 public:
  /// The format is recognised by the first bytes, not by the name. Errors (world): the file is
  /// missing, no regular file, cut or damaged, or in none of the formats.
  static Result<TensorFile> open(const std::string& path);

  /// In the order of the file, each name once.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(const std::string& name) const;  // null: there is none

  /// Error (world): its type is none of numbers, its bytes are cut or damaged, or there is not
  /// memory enough for them.
  Result<StoredTensor> read(const TensorInfo&) const;

  TensorFile(std::string path, std::vector<TensorInfo> tensors, std::unique_ptr<TensorReader>);

 private:
  std::string path_;
  std::vector<TensorInfo> tensors_;
  std::unique_ptr<TensorReader> reader_;
};

/// All tensors of a file.
Result<std::vector<StoredTensor>> read_tensors(const std::string& path);

/// The tensors of a safetensors file in memory; errors call it `path`.
Result<std::vector<StoredTensor>> parse_safetensors(const std::string& path,
                                                    std::span<const uint8_t> file);

class InputFile;  // models/files/file.hpp

// What TensorFile::open() chooses from. Each takes over the open file.
Result<TensorFile> open_safetensors(InputFile);
Result<TensorFile> open_npz(InputFile);
Result<TensorFile> open_state_dict(InputFile);

}  // namespace grapevine
