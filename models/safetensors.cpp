#include <cctype>
#include <cstring>
#include <string_view>

#include "kernels/write_file.hpp"
#include "models/data/file.hpp"
#include "models/model_file.hpp"

namespace grapevine {
namespace {

constexpr size_t kMaxHeaderBytes = size_t{100} << 20;  // the format's own limit
constexpr size_t kMaxFileBytes = size_t{16} << 30;

const char* name_of(TensorType type) {
  switch (type) {
    case TensorType::f32: return "F32";
    case TensorType::f64: return "F64";
    case TensorType::i64: return "I64";
  }
  return "";
}

/// The part of JSON that such a header consists of: strings, unsigned integers, arrays of them,
/// objects. After the first thing that does not fit, good() is false and everything returns at
/// once.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  bool good() const { return good_; }
  bool at_end() { return peek() == '\0'; }
  void fail() { good_ = false; }

  bool take(char c) {
    if (!good_ || peek() != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail();
  }

  std::string string() {
    need('"');
    std::string value;
    while (good_ && at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') ++at_;  // names of ours have none; others keep the escaped character
      if (at_ < text_.size()) value += text_[at_++];
    }
    need('"');
    return value;
  }

  uint64_t number() {
    uint64_t value = 0;
    if (!std::isdigit(static_cast<unsigned char>(peek()))) fail();
    while (good_ && at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      value = value * 10 + static_cast<uint64_t>(text_[at_++] - '0');
      if (value >> 48 != 0) fail();  // far above any file; keeps later sums from overflowing
    }
    return value;
  }

  template <class Element>
  void list(char open, char close, Element&& element) {
    need(open);
    if (take(close)) return;
    do {
      element();
    } while (good_ && take(','));
    need(close);
  }

 private:
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::string_view text_;
  size_t at_ = 0;
  bool good_ = true;
};

TensorType read_type(HeaderReader& header) {
  const std::string name = header.string();
  for (const TensorType type : {TensorType::f32, TensorType::f64, TensorType::i64}) {
    if (name == name_of(type)) return type;
  }
  header.fail();
  return TensorType::f32;
}

/// One entry of the header; its bytes are copied out of `data`.
StoredTensor read_tensor(HeaderReader& header, std::string name, const uint8_t* data,
                         size_t data_bytes) {
  StoredTensor tensor;
  tensor.name = std::move(name);
  std::vector<uint64_t> offsets;
  header.list('{', '}', [&] {
    const std::string key = header.string();
    header.need(':');
    if (key == "dtype") {
      tensor.type = read_type(header);
    } else if (key == "shape") {
      header.list('[', ']', [&] { tensor.shape.push_back(static_cast<int64_t>(header.number())); });
    } else if (key == "data_offsets") {
      header.list('[', ']', [&] { offsets.push_back(header.number()); });
    } else {
      header.fail();
    }
  });
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) header.fail();
  if (!header.good()) return tensor;
  uint64_t expected = size_of(tensor.type);  // number() and the break keep it from overflowing
  for (const int64_t d : tensor.shape) {
    expected *= static_cast<uint64_t>(d);
    if (expected > data_bytes) break;
  }
  if (expected != offsets[1] - offsets[0]) header.fail();
  if (header.good()) tensor.bytes.assign(data + offsets[0], data + offsets[1]);
  return tensor;
}

}  // namespace

Status write_safetensors(const std::string& path, const std::vector<ModelTensor>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  size_t at = 0;
  std::vector<Piece> pieces(2);
  for (const ModelTensor& tensor : tensors) {
    header += ",\"" + tensor.name + "\":{\"dtype\":\"" + name_of(tensor.type) + "\",\"shape\":[";
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      header += (d > 0 ? "," : "") + std::to_string(tensor.shape[d]);
    }
    const size_t end = at + tensor.bytes();
    header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    pieces.push_back({tensor.data, tensor.bytes()});
    at = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  pieces[0] = {&length, sizeof length};
  pieces[1] = {header.data(), header.size()};
  return write_whole_file(path, pieces);
}

Result<std::vector<StoredTensor>> read_safetensors(const std::string& path) {
  const Result<Bytes> file = read_whole_file(path, kMaxFileBytes);
  if (!file) return file.error();
  uint64_t length = 0;
  if (file->size() >= sizeof length) std::memcpy(&length, file->data(), sizeof length);
  if (file->size() < sizeof length || length > file->size() - sizeof length ||
      length > kMaxHeaderBytes) {
    return world_error(path + " is cut or no safetensors file: " + with_commas(file->size()) +
                       " bytes, its first eight announce a header of " + with_commas(length));
  }
  const uint8_t* data = file->data() + sizeof length + length;
  const size_t data_bytes = file->size() - sizeof length - length;
  HeaderReader header({reinterpret_cast<const char*>(file->data()) + sizeof length, length});
  std::vector<StoredTensor> tensors;
  header.list('{', '}', [&] {
    std::string name = header.string();
    header.need(':');
    if (name == "__metadata__") {
      header.list('{', '}', [&] { header.string(), header.need(':'), header.string(); });
    } else {
      tensors.push_back(read_tensor(header, std::move(name), data, data_bytes));
    }
  });
  if (header.good() && header.at_end()) return tensors;
  return world_error(path + " is cut or damaged: its header does not describe its " +
                     with_commas(data_bytes) + " bytes of F32, F64 and I64 tensors" +
                     (tensors.empty() ? "" : ", at tensor " + tensors.back().name));
}

}  // namespace grapevine
