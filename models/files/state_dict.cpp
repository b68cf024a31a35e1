// Writes the file that torch.save writes for a plain dict of tensors: a zip (libzip) of a pickle,
// which names tensors and their storages, and of one stored record per tensor.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/write_file.hpp"
#include "models/files/model_file.hpp"

namespace grapevine {
namespace {

constexpr size_t kRecordAlignment = 64;  // of tensors in the file, so that torch.load can map them
constexpr const char* kRoot = "model/";

void put(std::string& out, uint64_t value, int bytes) {
  for (int k = 0; k < bytes; ++k)
    out += static_cast<char>(value >> 8 * k & 0xff);
}

/// The opcodes of pickle protocol 2 that a dict of tensors needs.
class Writer {
 public:
  Writer() { text_ = "\x80\x02"; }
  void code(const std::string& opcodes) { text_ += opcodes; }
  void unicode(const std::string& value) {
    text_ += 'X';
    put(text_, value.size(), 4);
    text_ += value;
  }
  void integer(size_t value) {
    const bool is_short = value <= size_t{std::numeric_limits<int32_t>::max()};
    text_ += is_short ? "J" : "\x8a\x08";
    put(text_, value, is_short ? 4 : 8);
  }
  void sizes(const std::vector<size_t>& values) {
    text_ += '(';
    for (const size_t value : values)
      integer(value);
    text_ += 't';
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

const TensorTypeNames& names_of(TensorType type) {
  const auto types = tensor_types();
  const auto found = std::find_if(types.begin(), types.end(),
                                  [type](const TensorTypeNames& n) { return n.type == type; });
  GV_CHECK((found != types.end() && *found->torch_storage != '\0'));
  return *found;
}

/// _rebuild_tensor_v2(persistent storage, offset 0, shape, strides, requires_grad False, no hooks)
void put_tensor(Writer& pickle, const ModelTensor& tensor, size_t number) {
  pickle.code("ctorch._utils\n_rebuild_tensor_v2\n((");
  pickle.unicode("storage");
  pickle.code(fmt::format("ctorch\n{}\n", names_of(tensor.type).torch_storage));
  pickle.unicode(std::to_string(number));
  pickle.unicode("cpu");
  pickle.integer(tensor.elements());
  pickle.code("tQ");
  pickle.integer(0);
  const std::vector<size_t> shape(tensor.shape.begin(), tensor.shape.end());
  std::vector<size_t> strides(shape.size());
  size_t stride = 1;
  for (size_t d = shape.size(); d-- > 0; stride *= std::max<size_t>(1, shape[d]))
    strides[d] = stride;
  pickle.sizes(shape);
  pickle.sizes(strides);
  pickle.code(
      "\x89"
      "ccollections\nOrderedDict\n)RtR");
}

std::string pickle_of(const std::vector<ModelTensor>& tensors) {
  Writer pickle;
  pickle.code("}(");
  for (size_t k = 0; k < tensors.size(); ++k) {
    pickle.unicode(tensors[k].name);
    put_tensor(pickle, tensors[k], k);
  }
  pickle.code("u.");
  return pickle.text();
}

/// A zip of stored records. Their bytes are not copied and must outlive it.
class Archive {
 public:
  explicit Archive(const std::string& path) {
    int why = 0;
    archive_ = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &why);
    if (archive_ == nullptr) errno_ = errno;
  }
  ~Archive() {
    if (archive_ != nullptr) zip_discard(archive_);
  }
  Archive(const Archive&) = delete;

  void add(const std::string& name, const void* data, size_t bytes) {
    if (archive_ == nullptr) return;
    zip_source_t* source = zip_source_buffer(archive_, data, bytes, 0);
    const zip_int64_t index = zip_file_add(archive_, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    GV_CHECK(index >= 0);
    const auto record = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(archive_, record, ZIP_CM_STORE, 0);
    zip_file_set_dostime(archive_, record, 0, 0, 0);
    // The extra field that PyTorch uses for padding, so that the data is aligned.
    constexpr size_t kHeader = 30, kFieldHead = 4, kField = 0x4246;
    const size_t data_at = at_ + kHeader + name.size() + kFieldHead;
    const std::string padding((kRecordAlignment - data_at % kRecordAlignment) % kRecordAlignment,
                              'Z');
    zip_file_extra_field_set(archive_, record, kField, 0,
                             reinterpret_cast<const zip_uint8_t*>(padding.data()),
                             static_cast<zip_uint16_t>(padding.size()), ZIP_FL_LOCAL);
    at_ = data_at + padding.size() + bytes;
  }

  /// The system's error if the file could not be written; 0: success.
  int close() {
    if (archive_ == nullptr) return errno_;
    if (zip_close(archive_) == 0) return archive_ = nullptr, 0;
    const int error = zip_error_code_system(zip_get_error(archive_));
    return error != 0 ? error : EIO;
  }

 private:
  zip_t* archive_ = nullptr;
  size_t at_ = 0;
  int errno_ = 0;
};

}  // namespace

Status write_state_dict(const std::string& path, const std::vector<ModelTensor>& tensors) {
  const std::string pickle = pickle_of(tensors), version = "3\n", byte_order = "little";
  const std::string part = fmt::format("{}.{}.part", path, ::getpid());
  Archive archive(part);
  archive.add(std::string(kRoot) + "data.pkl", pickle.data(), pickle.size());
  archive.add(std::string(kRoot) + "byteorder", byte_order.data(), byte_order.size());
  for (size_t k = 0; k < tensors.size(); ++k)
    archive.add(fmt::format("{}data/{}", kRoot, k), tensors[k].data, tensors[k].bytes());
  archive.add(std::string(kRoot) + "version", version.data(), version.size());
  const int error = archive.close();
  if (error != 0)
    return world_error(fmt::format("cannot write {}: {}", path, std::strerror(error)));
  const Descriptor file(::open(part.c_str(), O_RDONLY | O_CLOEXEC));
  return finish_file(file.fd(), part, path);
}

}  // namespace grapevine
