// Reads the file that torch.save writes for a dict of tensors: a zip of a pickle and one record per
// storage; or the older form, pickles followed by storages. Of the calls in the pickle, only those
// that make tensors are used.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "models/files/pickle.hpp"
#include "models/files/tensor_file.hpp"
#include "models/files/zip.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostPickleBytes = size_t{64} << 20, kMostStateDimensions = 32;

using Kind = PickleValue::Kind;

const TensorTypeNames* type_of_storage(std::string_view name) {
  for (const TensorTypeNames& known : tensor_types())
    if (*known.torch_storage != '\0' && name == known.torch_storage) return &known;
  return nullptr;
}

const TensorTypeNames* type_of_torch(std::string_view name) {
  for (const TensorTypeNames& known : tensor_types())
    if (name == known.in_torch) return &known;
  return nullptr;
}

/// Bytes of an element; 0: an unknown type.
size_t width_of_storage(std::string_view name) {
  constexpr std::pair<std::string_view, size_t> kOthers[] = {
      {"ComplexFloatStorage", 8}, {"ComplexDoubleStorage", 16}, {"QUInt8Storage", 1},
      {"QInt8Storage", 1},        {"QInt32Storage", 4},         {"UntypedStorage", 1}};
  if (const TensorTypeNames* known = type_of_storage(name)) return known->bytes;
  for (const auto& [other, bytes] : kOthers)
    if (name == other) return bytes;
  return 0;
}

/// "torch FloatStorage" becomes "FloatStorage".
std::string_view own_name(std::string_view name) { return name.substr(name.rfind(' ') + 1); }

/// A tensor as a view of a storage, counted in elements.
struct View {
  std::string storage;
  std::vector<uint64_t> shape, strides;
  uint64_t first = 0, count = 0, last = 0;  // last: its last element in the storage

  /// Sets count and last. False: they are too large for any file.
  bool measure() {
    constexpr uint64_t kMost = uint64_t{1} << 48;
    count = 1, last = first;
    if (std::ranges::find(shape, uint64_t{0}) != shape.end()) return count = 0, true;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (count > kMost / shape[d]) return false;
      count *= shape[d];
      if (shape[d] > 1 && strides[d] > kMost / (shape[d] - 1)) return false;
      last += (shape[d] - 1) * strides[d];
    }
    return first <= kMost && last <= 2 * kMost;
  }

  /// Its elements in order; `from` begins at the element `first`.
  Bytes gathered(const Bytes& from, size_t width) const {
    Bytes to(count * width);
    std::vector<uint64_t> index(shape.size(), 0);
    uint64_t place = 0;
    for (uint64_t k = 0; k < count; ++k) {
      std::memcpy(to.data() + k * width, from.data() + place * width, width);
      for (size_t d = shape.size(); d-- > 0;) {
        place += strides[d];
        if (++index[d] < shape[d]) break;
        place -= strides[d] * index[d];
        index[d] = 0;
      }
    }
    return to;
  }
};

/// The tensors of a state dict as the pickle describes them.
struct StateDict {
  std::vector<TensorInfo> tensors;
  std::vector<View> views;  // by a tensor's place
  size_t is_one_of = 0;     // dicts of tensors within a dict that is none
};

/// Finds the tensors in a pickle.
class TensorFinder {
 public:
  explicit TensorFinder(const Pickle& pickle) : pickle_(pickle) {}

  StateDict found() const {
    StateDict dict;
    dict.is_one_of = inner_dicts(*pickle_.value()).size();
    std::set<std::string_view> names;
    const auto items = pickle_.items(state_in(*pickle_.value()));
    for (size_t k = 0; k + 1 < items.size(); k += 2) {
      const std::string_view name = pickle_.text(items[k]);
      if (items[k].kind != Kind::text || !is_tensor(items[k + 1])) continue;
      if (!names.insert(name).second) continue;
      TensorInfo info{.name = std::string(name), .place = dict.views.size()};
      dict.views.push_back(read_tensor(items[k + 1], info));
      dict.tensors.push_back(std::move(info));
    }
    return dict;
  }

 private:
  std::string called(PickleValue value) const { return pickle_.name(pickle_.callee(value)); }
  bool is_dict(PickleValue value) const {
    return value.kind == Kind::dict || (value.kind == Kind::call && !is_tensor(value));
  }

  bool has_tensors(PickleValue dict) const {
    const auto items = pickle_.items(dict);
    for (size_t k = 0; k + 1 < items.size(); k += 2)
      if (items[k].kind == Kind::text && is_tensor(items[k + 1])) return true;
    return false;
  }

  /// The state dict: a usual key of this dict, the only item with tensors, or the dict itself.
  PickleValue state_in(PickleValue dict) const {
    constexpr const char* kUsual[] = {"state_dict", "model_state_dict", "model",   "net",
                                      "network",    "module",           "weights", "params"};
    const auto items = pickle_.items(dict);
    for (const char* usual : kUsual)
      for (size_t k = 0; k + 1 < items.size(); k += 2)
        if (pickle_.text(items[k]) == usual && is_dict(items[k + 1]) && has_tensors(items[k + 1]))
          return items[k + 1];
    const std::vector<PickleValue> inner = inner_dicts(dict);
    return inner.size() == 1 && !has_tensors(dict) ? inner.front() : dict;
  }

  std::vector<PickleValue> inner_dicts(PickleValue dict) const {
    std::vector<PickleValue> found;
    const auto items = pickle_.items(dict);
    for (size_t k = 0; k + 1 < items.size(); k += 2)
      if (is_dict(items[k + 1]) && has_tensors(items[k + 1])) found.push_back(items[k + 1]);
    return found;
  }

  bool is_tensor(PickleValue value) const {
    const std::string name = called(value);
    return name.starts_with("torch._utils _rebuild_") ||
           name.starts_with("torch._tensor _rebuild_");
  }

  /// Fills `info` with the tensor; type `other`: it cannot be read.
  View read_tensor(PickleValue value, TensorInfo& info) const {
    constexpr int kDeepest = 8;  // nesting of a user's subclass of Parameter
    std::span<const PickleValue> arguments = pickle_.arguments(value);
    std::string made_by = called(value);
    for (int depth = 0; depth < kDeepest && !arguments.empty(); ++depth) {
      if (made_by == "torch._utils _rebuild_parameter" ||
          made_by == "torch._utils _rebuild_parameter_with_state") {
        made_by = called(arguments[0]);
        arguments = pickle_.arguments(arguments[0]);
      } else if (made_by == "torch._tensor _rebuild_from_type_v2" && arguments.size() > 2) {
        made_by = pickle_.name(arguments[0]);
        arguments = pickle_.items(arguments[2]);
      } else {
        break;
      }
    }
    info.type_name = own_name(made_by);
    const bool is_third = made_by == "torch._utils _rebuild_tensor_v3";
    if ((made_by != "torch._utils _rebuild_tensor_v2" &&
         made_by != "torch._utils _rebuild_tensor" && !is_third) ||
        arguments.size() < 4)
      return {};
    return read_plain(arguments, is_third && arguments.size() > 6 ? &arguments[6] : nullptr, info);
  }

  /// (storage, first element, shape, strides, ...); `dtype`: if the storage has no type.
  View read_plain(std::span<const PickleValue> arguments, const PickleValue* dtype,
                  TensorInfo& info) const {
    View view;
    const auto shape = sizes_of(arguments[2]), strides = sizes_of(arguments[3]);
    // ("storage", type, key, place, elements; in the old form also a part of another storage)
    const auto id = arguments[0].kind == Kind::persistent
                        ? pickle_.items(pickle_.items(arguments[0])[0])
                        : std::span<const PickleValue>();
    if (id.size() < 5 || arguments[1].kind != Kind::integer || arguments[1].number < 0 || !shape ||
        !strides || shape->size() != strides->size())
      return {};
    info.type_name = pickle_.name(dtype == nullptr ? id[1] : *dtype);
    const std::string_view own = own_name(info.type_name);
    const TensorTypeNames* type = dtype == nullptr ? type_of_storage(own) : type_of_torch(own);
    view.storage = pickle_.text(id[2]);
    view.shape = *shape;
    view.strides = *strides;
    view.first = static_cast<uint64_t>(arguments[1].number) + first_of_part(id);
    info.shape.assign(shape->begin(), shape->end());
    if (type != nullptr && view.measure()) info.type = type->type;
    return view;
  }

  uint64_t first_of_part(std::span<const PickleValue> id) const {
    const auto part = id.size() > 5 ? pickle_.items(id[5]) : std::span<const PickleValue>();
    const bool is_one = part.size() == 3 && part[1].kind == Kind::integer && part[1].number > 0;
    return is_one ? static_cast<uint64_t>(part[1].number) : 0;
  }

  std::optional<std::vector<uint64_t>> sizes_of(PickleValue list) const {
    const auto items = pickle_.items(list);
    std::vector<uint64_t> sizes;
    if (list.kind != Kind::list || items.size() > kMostStateDimensions) return std::nullopt;
    for (const PickleValue& item : items) {
      if (item.kind != Kind::integer || item.number < 0) return std::nullopt;
      sizes.push_back(static_cast<uint64_t>(item.number));
    }
    return sizes;
  }

  const Pickle& pickle_;
};

/// The common part of both formats: views of storages somewhere in the file.
class StateDictReader : public TensorReader {
 public:
  explicit StateDictReader(std::vector<View> views) : views_(std::move(views)) {}

  Result<StoredTensor> read(const TensorInfo& info) const final {
    const auto refused = [&](const std::string& why) {
      return world_error(fmt::format("tensor {} {}", info.name, why));
    };
    if (info.type == TensorType::other)
      return refused(fmt::format("is of {}, accepted: floats, whole numbers and booleans, dense",
                                 info.type_name.empty() ? "no known kind" : info.type_name));
    const View& view = views_[info.place];
    const size_t width = size_of(info.type);
    if (Status fits = fits_in_memory(view.count * width); !fits)
      return refused(fits.error().message);
    StoredTensor tensor{info.name, info.shape, info.type, {}};
    if (view.count == 0) return tensor;
    const uint64_t reached = view.last - view.first + 1;
    auto bytes = storage(view.storage, view.first * width, reached * width);
    if (!bytes) return refused(bytes.error().message);
    if (is_swapped_)
      for (size_t k = 0; k + width <= bytes->size(); k += width)
        std::reverse(bytes->begin() + static_cast<std::ptrdiff_t>(k),
                     bytes->begin() + static_cast<std::ptrdiff_t>(k + width));
    tensor.bytes = view.gathered(*bytes, width);
    return tensor;
  }

 protected:
  /// Bytes of a storage. Error (world): a sentence without its subject.
  virtual Result<Bytes> storage(const std::string& key, uint64_t first, uint64_t count) const = 0;

  bool is_swapped_ = false;  // the numbers are big-endian

 private:
  const std::vector<View> views_;
};

class ZippedReader final : public StateDictReader {
 public:
  ZippedReader(std::vector<View> views, Zip archive, std::string root)
      : StateDictReader(std::move(views)), archive_(std::move(archive)), root_(std::move(root)) {
    for (const ZipEntry& entry : archive_.entries())
      records_.emplace(entry.name, &entry);
    const ZipEntry* order = archive_.find(root_ + "byteorder");
    const auto text = order == nullptr ? Result<Bytes>(Bytes()) : archive_.read(*order);
    is_swapped_ = text && std::string(text->begin(), text->end()) == "big";
  }

 private:
  Result<Bytes> storage(const std::string& key, uint64_t first, uint64_t count) const override {
    const auto found = records_.find(root_ + "data/" + key);
    if (found == records_.end()) return world_error("is cut or damaged");
    return archive_.read(*found->second, first, count);
  }

  const Zip archive_;
  const std::string root_;
  std::map<std::string, const ZipEntry*> records_;
};

struct Extent {
  uint64_t first, bytes;
};

class PlainReader final : public StateDictReader {
 public:
  PlainReader(std::vector<View> views, InputFile file, std::map<std::string, Extent> storages)
      : StateDictReader(std::move(views)), file_(std::move(file)), storages_(std::move(storages)) {}

 private:
  Result<Bytes> storage(const std::string& key, uint64_t first, uint64_t count) const override {
    const auto found = storages_.find(key);
    if (found == storages_.end() || first > found->second.bytes ||
        count > found->second.bytes - first)
      return world_error("is cut or damaged");
    if (Status fits = fits_in_memory(count); !fits) return fits.error();
    Bytes bytes(count);
    if (Status got = file_.read(found->second.first + first, bytes.data(), count); !got)
      return got.error();
    return bytes;
  }

  const InputFile file_;
  const std::map<std::string, Extent> storages_;
};

Error no_state_dict(const std::string& path, const Pickle& pickle, const StateDict& dict) {
  std::string what = pickle.complaint();
  if (what.empty()) {
    const std::string made = pickle.name(pickle.callee(*pickle.value()));
    what = !made.empty()        ? "it holds a " + made
           : dict.is_one_of > 1 ? fmt::format("it holds {} dicts of tensors", dict.is_one_of)
                                : "it holds no dict of tensors";
  }
  GV_CHECK(dict.tensors.empty());
  return world_error(
      fmt::format("{} is no state dict: {}, accepted: a dict of tensors, as "
                  "torch.save(model.state_dict()) writes it",
                  path, what));
}

StateDict dict_in(const Pickle& pickle) {
  return pickle.value() ? TensorFinder(pickle).found() : StateDict{};
}

Result<TensorFile> open_zipped(InputFile file) {
  const auto damaged = [&](const std::string& why) {
    return world_error(fmt::format("{} {}", file.path(), why));
  };
  auto archive = Zip::open(file);
  if (!archive) return damaged(archive.error().message);
  const ZipEntry* found = nullptr;
  for (const ZipEntry& entry : archive->entries())
    if (entry.name == "data.pkl" || entry.name.ends_with("/data.pkl"))
      if (found == nullptr) found = &entry;
  if (found == nullptr)
    return damaged("is cut or damaged, or no file of torch.save or numpy.savez");
  if (found->size > kMostPickleBytes) return damaged("is no state dict: its pickle is too large");
  const std::string root = found->name.substr(0, found->name.size() - std::strlen("data.pkl"));
  const auto bytes = archive->read(*found);
  if (!bytes) return damaged(bytes.error().message);
  size_t at = 0;
  const Pickle pickle(*bytes, at);
  StateDict dict = dict_in(pickle);
  if (dict.tensors.empty()) return no_state_dict(file.path(), pickle, dict);
  const std::string path = file.path();
  auto reader = std::make_unique<ZippedReader>(std::move(dict.views), std::move(*archive), root);
  return TensorFile(path, std::move(dict.tensors), std::move(reader));
}

/// The storages after the pickles of the old form, in the order of their keys: for each a count and
/// the elements.
std::map<std::string, Extent> storages_behind(const InputFile& file, uint64_t at,
                                              const Pickle& keys, const Pickle& dict) {
  std::map<std::string, size_t> widths;
  for (const PickleValue& id : dict.ids())
    if (const auto parts = dict.items(id); parts.size() >= 5)
      widths[std::string(dict.text(parts[2]))] = width_of_storage(own_name(dict.name(parts[1])));
  std::map<std::string, Extent> storages;
  if (!keys.value()) return storages;
  for (const PickleValue& key : keys.items(*keys.value())) {
    const std::string name(keys.text(key));
    uint64_t count = 0;
    if (!file.read(at, &count, sizeof count) || count > file.size()) break;
    at += sizeof count;
    const auto known = widths.find(name);
    if (known == widths.end() || known->second == 0) break;  // its end is unknown
    storages[name] = {at, count * known->second};
    at += count * known->second;
  }
  return storages;
}

// The file has a magic number, a version, the machine's properties, the dict, and its storages'
// keys.
Result<TensorFile> open_plain(InputFile file) {
  auto bytes = file.begin(kMostPickleBytes);
  if (!bytes) return bytes.error();
  size_t at = 0;
  for (int k = 0; k < 3; ++k) {
    if (const Pickle passed(*bytes, at); !passed.value())
      return world_error(fmt::format("{} is no state dict: {}", file.path(), passed.complaint()));
    if (k == 0 && at == file.size())
      return world_error(
          fmt::format("{} is no state dict: it is one pickle, accepted: a file of torch.save, "
                      "which has more than that",
                      file.path()));
  }
  const Pickle pickle(*bytes, at);
  StateDict dict = dict_in(pickle);
  if (dict.tensors.empty()) return no_state_dict(file.path(), pickle, dict);
  const Pickle keys(*bytes, at);
  auto storages = storages_behind(file, at, keys, pickle);
  const std::string path = file.path();
  auto reader =
      std::make_unique<PlainReader>(std::move(dict.views), std::move(file), std::move(storages));
  return TensorFile(path, std::move(dict.tensors), std::move(reader));
}

}  // namespace

Result<TensorFile> open_state_dict(InputFile file) {
  const auto first = file.begin(2);
  if (!first) return first.error();
  const bool is_zip = first->size() == 2 && (*first)[0] == 'P';
  return is_zip ? open_zipped(std::move(file)) : open_plain(std::move(file));
}

}  // namespace grapevine
