#include <fmt/core.h>

#include <zlib.h>

#include <cstring>
#include <limits>

#include "kernels/base/write_file.hpp"
#include "models/files/model_file.hpp"

namespace grapevine {
namespace {

constexpr size_t kRecordAlignment = 64;  // of tensors in the file: torch.load can map them
constexpr const char* kRoot = "model/";

void put(std::string& out, uint64_t value, int bytes) {
  for (int k = 0; k < bytes; ++k)
    out += static_cast<char>(value >> 8 * k & 0xff);
}

/// The opcodes of pickle protocol 2 that a dict of tensors needs.
class Pickle {
 public:
  Pickle() { text_ = "\x80\x02"; }
  void code(const char* opcodes) { text_ += opcodes; }
  void unicode(const std::string& value) {
    text_ += 'X';
    put(text_, value.size(), 4);
    text_ += value;
  }
  void integer(size_t value) {
    GV_CHECK(value <= size_t{std::numeric_limits<int32_t>::max()});
    text_ += 'J';
    put(text_, value, 4);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

const char* storage_of(TensorType type) {
  switch (type) {
    case TensorType::f32: return "ctorch\nFloatStorage\n";
    case TensorType::f64: return "ctorch\nDoubleStorage\n";
    case TensorType::i64: return "ctorch\nLongStorage\n";
  }
  return "";
}

/// _rebuild_tensor_v2(persistent storage, offset 0, shape, strides, requires_grad False, no hooks)
void put_tensor(Pickle& pickle, const ModelTensor& tensor, size_t number) {
  pickle.code("ctorch._utils\n_rebuild_tensor_v2\n((");
  pickle.unicode("storage");
  pickle.code(storage_of(tensor.type));
  pickle.unicode(std::to_string(number));
  pickle.unicode("cpu");
  pickle.integer(tensor.elements());
  pickle.code("tQ");
  pickle.integer(0);
  pickle.code("(");
  for (const int64_t d : tensor.shape)
    pickle.integer(static_cast<size_t>(d));
  pickle.code("t(");
  size_t stride = tensor.elements();
  for (const int64_t d : tensor.shape) {
    stride /= static_cast<size_t>(d);
    pickle.integer(stride);
  }
  pickle.code(
      "t\x89"
      "ccollections\nOrderedDict\n)RtR");
}

std::string pickle_of(const std::vector<ModelTensor>& tensors) {
  Pickle pickle;
  pickle.code("}(");
  for (size_t k = 0; k < tensors.size(); ++k) {
    pickle.unicode(tensors[k].name);
    put_tensor(pickle, tensors[k], k);
  }
  pickle.code("u.");
  return pickle.text();
}

/// A zip of stored records. The bytes of the records are not copied.
class Zip {
 public:
  void add(const std::string& name, const void* data, size_t bytes) {
    const uLong crc = crc32_z(0, static_cast<const Bytef*>(data), bytes);
    const size_t data_at = at_ + 30 + name.size() + 4;
    const size_t padding = (kRecordAlignment - data_at % kRecordAlignment) % kRecordAlignment;
    std::string fields;             // shared by the local and the central header
    put(fields, 0, 2 + 2 + 2 + 2);  // flags, stored, time, date
    put(fields, crc, 4);
    put(fields, bytes, 4);
    put(fields, bytes, 4);
    put(fields, name.size(), 2);

    std::string local = "PK\x03\x04";
    put(local, 20, 2);
    local += fields;
    put(local, 4 + padding, 2);
    local += name + "FB";  // the extra field that PyTorch pads with
    put(local, padding, 2);
    local.append(padding, 'Z');

    directory_ += "PK\x01\x02";
    put(directory_, 20, 2);
    put(directory_, 20, 2);
    directory_ += fields;
    directory_.append(2 + 2 + 2 + 2 + 4, '\0');  // extra field, comment, disk, attributes
    put(directory_, at_, 4);
    directory_ += name;

    ++records_;
    at_ += local.size() + bytes;
    GV_CHECK(at_ < size_t{std::numeric_limits<uint32_t>::max()});
    headers_.push_back(std::move(local));
    data_.push_back({data, bytes});
  }

  Status write(const std::string& path) {
    const size_t directory_bytes = directory_.size();
    directory_ += "PK\x05\x06";
    put(directory_, 0, 4);
    put(directory_, records_, 2);
    put(directory_, records_, 2);
    put(directory_, directory_bytes, 4);
    put(directory_, at_, 4);
    put(directory_, 0, 2);
    std::vector<Piece> pieces;
    for (size_t k = 0; k < records_; ++k) {
      pieces.push_back({headers_[k].data(), headers_[k].size()});
      pieces.push_back(data_[k]);
    }
    pieces.push_back({directory_.data(), directory_.size()});
    return write_whole_file(path, pieces);
  }

 private:
  std::vector<std::string> headers_;
  std::vector<Piece> data_;
  std::string directory_;
  size_t records_ = 0;
  size_t at_ = 0;
};

}  // namespace

Status write_state_dict(const std::string& path, const std::vector<ModelTensor>& tensors) {
  const std::string pickle = pickle_of(tensors), version = "3\n", byte_order = "little";
  Zip zip;
  zip.add(std::string(kRoot) + "data.pkl", pickle.data(), pickle.size());
  zip.add(std::string(kRoot) + "byteorder", byte_order.data(), byte_order.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    zip.add(fmt::format("{}data/{}", kRoot, k), tensors[k].data, tensors[k].bytes());
  }
  zip.add(std::string(kRoot) + "version", version.data(), version.size());
  return zip.write(path);
}

}  // namespace grapevine
