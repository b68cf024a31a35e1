#include "models/files/state_dict_reader.hpp"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include "models/files/zip.hpp"

namespace grapevine {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 30, kMaxPickleBytes = size_t{8} << 20;
constexpr size_t kMostEntries = 1 << 20, kMostDimensions = 32;

/// What a pickle puts together. Nested by references into one deque, so that nothing recurses.
struct Value {
  enum class Kind { other, integer, text, global, tuple, dict, storage, tensor };
  Kind kind = Kind::other;
  int64_t integer = 0;
  std::string text;           // of a global "module name"; of a storage its type
  std::vector<Value*> items;  // of a dict: key, value, key, ...
};
using Kind = Value::Kind;

/// A pickle's machine. After the first thing that it does not know complaint() says what.
class Unpickler {
 public:
  explicit Unpickler(ByteView pickle) : fields_(pickle) {}

  /// Null: see complaint().
  const Value* run() {
    while (complaint_.empty() && fields_.good()) {
      const auto code = static_cast<uint8_t>(fields_.number(1));
      if (!fields_.good()) break;
      if (code == '.') return pop();
      step(code);
    }
    if (complaint_.empty()) complaint_ = "its pickle is cut";
    return nullptr;
  }
  const std::string& complaint() const { return complaint_; }

 private:
  void step(uint8_t code) {
    if (!push_plain(code) && !remember(code) && !compose(code))
      fail(fmt::format("its pickle has the opcode {}", code));
  }

  // Numbers, texts, names, and what says nothing.
  bool push_plain(uint8_t code) {
    switch (code) {
      case 0x80: fields_.number(1); return true;
      case 0x95: fields_.number(8); return true;
      case 'J': return integer(static_cast<int32_t>(fields_.number(4)));
      case 'K': return integer(static_cast<int64_t>(fields_.number(1)));
      case 'M': return integer(static_cast<int64_t>(fields_.number(2)));
      case 0x8a: return long_integer();
      case 'G': fields_.number(8); [[fallthrough]];
      case 'N':
      case 0x88:
      case 0x89: return push(Kind::other), true;
      case 'X': return text(fields_.number(4));
      case 0x8c: return text(fields_.number(1));
      case 'c': {
        const std::string module = line();
        push(Kind::global)->text = fmt::format("{} {}", module, line());
        return true;
      }
      case 0x93: {
        const Value *name = pop(), *module = pop();
        push(Kind::global)->text = fmt::format("{} {}", module->text, name->text);
        return true;
      }
      default: return false;
    }
  }

  bool remember(uint8_t code) {
    switch (code) {
      case 'q': return keep(fields_.number(1));
      case 'r': return keep(fields_.number(4));
      case 0x94: return keep(memo_.size());
      case 'h': return recall(fields_.number(1));
      case 'j': return recall(fields_.number(4));
      case '0': return pop(), true;
      default: return false;
    }
  }

  bool compose(uint8_t code) {
    switch (code) {
      case '(': return marks_.push_back(stack_.size()), true;
      case '}': return push(Kind::dict), true;
      case ']':
      case ')': return push(Kind::tuple), true;
      case 't': return tuple(above_mark());
      case 0x85:
      case 0x86:
      case 0x87: return tuple(top(code - 0x84u));
      case 'a': return add(top(1), Kind::tuple);
      case 'e': return add(above_mark(), Kind::tuple);
      case 's': return add(top(2), Kind::dict);
      case 'u': return add(above_mark(), Kind::dict);
      case 'b': return pop(), true;  // attributes
      case 'Q': return storage();
      case 0x81:
      case 'R': return reduce();
      default: return false;
    }
  }

  void fail(const std::string& why) {
    if (complaint_.empty()) complaint_ = why;
  }
  Value* push(Kind kind) {
    values_.push_back({});
    values_.back().kind = kind;
    stack_.push_back(&values_.back());
    return stack_.back();
  }
  Value* pop() {
    if (stack_.empty()) return fail("its pickle is damaged"), &none_;
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  bool integer(int64_t value) { return push(Kind::integer)->integer = value, true; }
  bool long_integer() {
    const ByteView bytes = fields_.take(fields_.number(1));
    uint64_t value = 0;
    for (size_t k = 0; k < bytes.size() && k < 8; ++k)
      value |= uint64_t{bytes[k]} << 8 * k;
    if (bytes.size() > 8 || (!bytes.empty() && (bytes.back() & 0x80)))
      fail("its pickle has a number that no size can be");
    return integer(static_cast<int64_t>(value));
  }
  bool text(uint64_t size) {
    const ByteView bytes = fields_.take(size);
    push(Kind::text)->text.assign(bytes.begin(), bytes.end());
    return true;
  }
  std::string line() {
    std::string text;
    for (uint64_t c = fields_.number(1); fields_.good() && c != '\n'; c = fields_.number(1))
      text += static_cast<char>(c);
    return text;
  }
  bool keep(uint64_t number) {
    if (stack_.empty()) return fail("its pickle is damaged"), true;
    memo_[number] = stack_.back();
    return true;
  }
  bool recall(uint64_t number) {
    const auto known = memo_.find(number);
    if (known == memo_.end()) return fail("its pickle is damaged"), true;
    stack_.push_back(known->second);
    return true;
  }
  std::vector<Value*> top(size_t count) {
    if (stack_.size() < count) return fail("its pickle is damaged"), std::vector<Value*>();
    std::vector<Value*> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<Value*> above_mark() {
    if (marks_.empty() || marks_.back() > stack_.size())
      return fail("its pickle is damaged"), top(0);
    const size_t first = marks_.back();
    marks_.pop_back();
    return top(stack_.size() - first);
  }
  bool tuple(std::vector<Value*> items) {
    return push(Kind::tuple)->items = std::move(items), true;
  }
  bool add(const std::vector<Value*>& items, Kind to) {
    if (stack_.empty() || stack_.back()->kind != to || (to == Kind::dict && items.size() % 2 != 0))
      return fail("its pickle is damaged"), true;
    auto& own = stack_.back()->items;
    own.insert(own.end(), items.begin(), items.end());
    return true;
  }
  // ("storage", type, key, place, elements)
  bool storage() {
    const Value* id = pop();
    const bool is_one = id->kind == Kind::tuple && id->items.size() == 5 &&
                        id->items[1]->kind == Kind::global && id->items[2]->kind == Kind::text;
    if (!is_one) return fail("its pickle is damaged"), true;
    Value* made = push(Kind::storage);
    made->text = id->items[1]->text;
    made->items = {id->items[2]};
    return true;
  }
  bool reduce() {
    const Value *arguments = pop(), *callee = pop();
    const std::string& name = callee->text;
    if (name == "collections OrderedDict") return push(Kind::dict), true;
    const size_t wanted = name == "torch._utils _rebuild_tensor_v2"   ? 4
                          : name == "torch._utils _rebuild_parameter" ? 1
                                                                      : 0;
    if (callee->kind != Kind::global || wanted == 0)
      return fail("it holds " + (name.empty() ? "something" : name)), true;
    if (arguments->items.size() < wanted) return fail("its pickle is damaged"), true;
    if (wanted == 1)
      stack_.push_back(arguments->items[0]);
    else
      push(Kind::tensor)->items = arguments->items;
    return true;
  }

  Fields fields_;
  std::deque<Value> values_;
  Value none_;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, Value*> memo_;
  std::string complaint_;
};

struct StorageType {
  const char* name;
  size_t bytes;
  TensorType type;
};
constexpr StorageType kStorages[] = {{"torch FloatStorage", 4, TensorType::f32},
                                     {"torch DoubleStorage", 8, TensorType::f64},
                                     {"torch LongStorage", 8, TensorType::i64},
                                     {"torch BFloat16Storage", 2, TensorType::f32},
                                     {"torch HalfStorage", 2, TensorType::f32}};

float from_half(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31, exponent = half >> 10 & 31;
  const uint32_t fraction = half & 1023u;
  if (exponent == 0) {  // zero, or below the normal ones
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

void convert(const StorageType& from, const uint8_t* in, uint8_t* out) {
  if (from.bytes == size_of(from.type)) return void(std::memcpy(out, in, from.bytes));
  uint16_t narrow;
  std::memcpy(&narrow, in, sizeof narrow);
  const bool is_half = std::string_view(from.name) == "torch HalfStorage";
  const float value = is_half ? from_half(narrow) : std::bit_cast<float>(uint32_t{narrow} << 16);
  std::memcpy(out, &value, sizeof value);
}

std::optional<std::vector<uint64_t>> sizes_of(const Value& tuple) {
  std::vector<uint64_t> sizes;
  if (tuple.kind != Kind::tuple || tuple.items.size() > kMostDimensions) return std::nullopt;
  for (const Value* item : tuple.items) {
    if (item->kind != Kind::integer || item->integer < 0) return std::nullopt;
    sizes.push_back(static_cast<uint64_t>(item->integer));
  }
  return sizes;
}

/// Where a tensor's elements lie in its storage; nothing: not all of them do, or it repeats some.
struct Strides {
  std::vector<uint64_t> shape, strides;
  uint64_t first = 0, count = 1;

  bool lie_in(uint64_t elements) {
    uint64_t last = first;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 0) return count = 0, true;
      if (count > elements / shape[d]) return false;
      count *= shape[d];
      if (shape[d] > 1 && strides[d] > elements / (shape[d] - 1)) return false;
      last += (shape[d] - 1) * strides[d];
      if (last >= elements) return false;
    }
    return last < elements;
  }
  uint64_t at(uint64_t index) const {
    uint64_t place = first;
    for (size_t d = shape.size(); d-- > 0; index /= shape[d])
      place += index % shape[d] * strides[d];
    return place;
  }
};

/// The records of a file, of which each tensor's storage is one.
class Archive {
 public:
  explicit Archive(ByteView file) : file_(file) {
    const auto entries = zip_entries(file, kMostEntries);
    if (!entries) return;
    for (const ZipEntry& entry : *entries) {
      const size_t root = entry.name.find('/');  // that torch.save calls as it likes
      if (root != entry.name.npos) entries_.emplace(entry.name.substr(root + 1), entry);
    }
  }
  std::optional<Bytes> bytes(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? std::nullopt : bytes_of(file_, found->second);
  }
  /// The last one that was asked for is kept: tensors that share one follow one another.
  const Bytes* storage(const std::string& key) {
    if (key != key_ || !kept_) {
      kept_ = bytes("data/" + key);
      key_ = key;
    }
    return kept_ ? &*kept_ : nullptr;
  }

 private:
  ByteView file_;
  std::map<std::string, ZipEntry> entries_;
  std::string key_;
  std::optional<Bytes> kept_;
};

Result<StoredTensor> tensor_of(const std::string& name, const Value& value, Archive& archive) {
  const auto damaged = [&] {
    return world_error(fmt::format("tensor {} is cut or damaged", name));
  };
  const Value &storage = *value.items[0], &first = *value.items[1];
  const auto shape = sizes_of(*value.items[2]), strides = sizes_of(*value.items[3]);
  if (storage.kind != Kind::storage || first.kind != Kind::integer || first.integer < 0 || !shape ||
      !strides || shape->size() != strides->size())
    return damaged();
  for (const StorageType& type : kStorages) {
    if (storage.text != type.name) continue;
    const Bytes* bytes = archive.storage(storage.items[0]->text);
    Strides places{*shape, *strides, static_cast<uint64_t>(first.integer)};
    if (bytes == nullptr || !places.lie_in(bytes->size() / type.bytes)) return damaged();
    StoredTensor tensor{name, {shape->begin(), shape->end()}, type.type, {}};
    const size_t wide = size_of(type.type);
    tensor.bytes.resize(places.count * wide);
    for (uint64_t k = 0; k < places.count; ++k)
      convert(type, bytes->data() + places.at(k) * type.bytes, tensor.bytes.data() + k * wide);
    return tensor;
  }
  return world_error(fmt::format(
      "tensor {} is of {}, accepted: float, double, long, half or bfloat16", name, storage.text));
}

// The state dict that a dict is, or has under one of the usual names.
const Value& state_in(const Value& dict) {
  for (size_t k = 0; k + 1 < dict.items.size(); k += 2)
    for (const char* usual : {"state_dict", "model_state_dict", "model"})
      if (dict.items[k]->text == usual && dict.items[k + 1]->kind == Kind::dict)
        return *dict.items[k + 1];
  return dict;
}

}  // namespace

bool is_state_dict(const std::string& path) {
  char begin[4] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  return std::memcmp(begin, "PK\x03\x04", sizeof begin) == 0;
}

Result<std::vector<StoredTensor>> read_state_dict(const std::string& path) {
  const Result<Bytes> file = read_whole_file(path, kMaxFileBytes);
  if (!file) return file.error();
  Archive archive(*file);
  const auto pickle = archive.bytes("data.pkl");
  if (!pickle || pickle->size() > kMaxPickleBytes)
    return world_error(path + " is cut or damaged, or no file of torch.save");
  Unpickler unpickler(*pickle);
  const Value* saved = unpickler.run();
  if (saved == nullptr)
    return world_error(fmt::format("{} is no state dict: {}, accepted: a dict of tensors", path,
                                   unpickler.complaint()));
  const Value& state = state_in(*saved);
  std::vector<StoredTensor> tensors;
  size_t left = 4 * file->size();  // tensors may share a storage, but not without end
  for (size_t k = 0; k + 1 < state.items.size() && state.kind == Kind::dict; k += 2) {
    if (state.items[k]->kind != Kind::text || state.items[k + 1]->kind != Kind::tensor) continue;
    auto tensor = tensor_of(state.items[k]->text, *state.items[k + 1], archive);
    if (!tensor) return world_error(fmt::format("{}: {}", path, tensor.error().message));
    if (tensor->bytes.size() > left)
      return world_error(
          fmt::format("{} announces more than its bytes can be, at tensor {}", path, tensor->name));
    left -= tensor->bytes.size();
    tensors.push_back(std::move(*tensor));
  }
  if (tensors.empty())
    return world_error(path + " holds no dict of tensors, accepted: a state dict");
  return tensors;
}

}  // namespace grapevine
