// EventFile: scalars for TensorBoard, in its own format, without a client of it: records of {u64
// length, masked CRC-32C of it, Event, masked CRC-32C of that}, each Event in the wire format of
// Protocol Buffers (tensorflow/core/util/event.proto, framework/summary.proto; the
// hyper-parameters: tensorboard/plugins/hparams/plugin_data.proto).
//
// The few fields are encoded by hand: LibTorch loads its own Protocol Buffers library, and a
// process cannot have two versions of it.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/system/growing_file.hpp"

namespace grapevine {

class EventFile {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;  // tag, value

  /// Makes the folder and FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS. Error (world): the
  /// system's.
  static Result<EventFile> make(const std::string& folder);

  /// Both as GrowingFile::append. Values that are not finite are left out.
  Status scalars(uint64_t step, const Scalars&);
  Status hyper_parameters(const std::map<std::string, std::string>&);

 private:
  explicit EventFile(GrowingFile file) : file_(std::move(file)) {}
  Status add(uint64_t step, const std::string& field);

  GrowingFile file_;
};

/// CRC-32C (Castagnoli), as in RFC 3720.
uint32_t crc32c(const std::string& bytes);

}  // namespace grapevine
