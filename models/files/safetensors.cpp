#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <string_view>

#include "kernels/base/write_file.hpp"
#include "models/files/file.hpp"
#include "models/files/model_file.hpp"

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
    std::string value;
    if (!good_ || peek() != '"') return fail(), value;
    ++at_;
    while (good_ && at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        value += escaped();
      } else {
        value += text_[at_++];
      }
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
  // What stands behind a backslash; of characters by number only those below 128.
  char escaped() {
    static constexpr std::string_view kNamed = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const std::string_view rest = text_.substr(at_ + 1);
    const size_t named = rest.empty() ? kNamed.npos : kNamed.find(rest[0]);
    if (named != kNamed.npos) return at_ += 2, kMeant[named];
    unsigned code = 0x80;
    if (rest.size() > 4 && rest[0] == 'u')
      std::from_chars(rest.data() + 1, rest.data() + 5, code, 16);
    if (code >= 0x80) fail();
    at_ += 6;
    return static_cast<char>(code);
  }

  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])))
      ++at_;
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

/// The data behind a header, of which each byte is given to at most one tensor.
struct Data {
  const uint8_t* first = nullptr;
  size_t bytes = 0, left = 0;  // left: not given yet, so that no header makes more of them
};

/// One entry of the header; its bytes are copied out of the data.
StoredTensor read_tensor(HeaderReader& header, std::string name, Data& data) {
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
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.bytes) header.fail();
  if (!header.good()) return tensor;
  const uint64_t length = offsets[1] - offsets[0];
  const auto zero = [](int64_t d) { return d == 0; };
  uint64_t expected = std::any_of(tensor.shape.begin(), tensor.shape.end(), zero) ? 0 : 1;
  for (const int64_t d : tensor.shape) {  // by division: no product overflows
    if (expected == 0) break;
    if (static_cast<uint64_t>(d) > length / expected) return header.fail(), tensor;
    expected *= static_cast<uint64_t>(d);
  }
  if (expected * size_of(tensor.type) != length || length > data.left) header.fail();
  if (!header.good()) return tensor;
  data.left -= length;
  tensor.bytes.assign(data.first + offsets[0], data.first + offsets[1]);
  return tensor;
}

/// As JSON has it.
std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20) {
      static constexpr char kDigits[] = "0123456789abcdef";
      text += {'\\', 'u', '0', '0', kDigits[code >> 4], kDigits[code & 15]};
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

bool names_repeat(const std::vector<StoredTensor>& tensors) {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors)
    names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) != names.end();
}

}  // namespace

std::string safetensors_head(const std::vector<ModelTensor>& tensors) {
  std::string head = "{\"__metadata__\":{\"format\":\"pt\"}";
  size_t at = 0;
  for (const ModelTensor& tensor : tensors) {
    head += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[", quoted(tensor.name),
                        name_of(tensor.type));
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      head += fmt::format("{}{}", d > 0 ? "," : "", tensor.shape[d]);
    }
    const size_t end = at + tensor.bytes();
    head += fmt::format("],\"data_offsets\":[{},{}]}}", at, end);
    at = end;
  }
  head += "}";
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const uint64_t length = head.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + head;
}

Status write_safetensors(const std::string& path, const std::vector<ModelTensor>& tensors) {
  const std::string head = safetensors_head(tensors);
  std::vector<Piece> pieces = {{head.data(), head.size()}};
  for (const ModelTensor& tensor : tensors)
    pieces.push_back({tensor.data, tensor.bytes()});
  return write_whole_file(path, pieces);
}

Result<std::vector<StoredTensor>> parse_safetensors(const std::string& path,
                                                    std::span<const uint8_t> file) {
  uint64_t length = 0;
  if (file.size() >= sizeof length) std::memcpy(&length, file.data(), sizeof length);
  if (file.size() < sizeof length || length > file.size() - sizeof length ||
      length > kMaxHeaderBytes) {
    return world_error(fmt::format(
        "{} is cut or no safetensors file: {} bytes, its first eight announce a header of {}", path,
        with_commas(file.size()), with_commas(length)));
  }
  const size_t data_bytes = file.size() - sizeof length - length;
  Data data{file.data() + sizeof length + length, data_bytes, data_bytes};
  HeaderReader header({reinterpret_cast<const char*>(file.data()) + sizeof length, length});
  std::vector<StoredTensor> tensors;
  header.list('{', '}', [&] {
    std::string name = header.string();
    header.need(':');
    if (name == "__metadata__") {
      header.list('{', '}', [&] { header.string(), header.need(':'), header.string(); });
    } else {
      tensors.push_back(read_tensor(header, std::move(name), data));
    }
  });
  if (header.good() && header.at_end() && !names_repeat(tensors)) return tensors;
  return world_error(fmt::format(
      "{} is cut or damaged: its header does not describe its {} bytes of F32, F64 and I64 "
      "tensors{}",
      path, with_commas(data_bytes), tensors.empty() ? "" : ", at tensor " + tensors.back().name));
}

Result<std::vector<StoredTensor>> read_safetensors(const std::string& path) {
  const Result<Bytes> file = read_whole_file(path, kMaxFileBytes);
  if (!file) return file.error();
  return parse_safetensors(path, *file);
}

}  // namespace grapevine
