#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/base/write_file.hpp"
#include "models/files/file.hpp"
#include "models/files/model_file.hpp"
#include "models/files/tensor_file.hpp"

namespace grapevine {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxHeaderBytes = size_t{100} << 20;  // the format's own limit
constexpr size_t kMostSafetensorsDimensions = 64;

const char* name_of(TensorType type) {
  for (const TensorTypeNames& known : tensor_types())
    if (known.type == type) return known.in_safetensors;
  return "";
}

struct Entry {
  TensorInfo info;
  std::vector<uint64_t> offsets;  // two: the begin and end of its bytes after the header
};

/// Takes the entries of a header while its text is parsed (nlohmann's SAX), so other content is not
/// kept. The first error ends the parsing.
class HeaderTaker : public Json::json_sax_t {
 public:
  std::vector<Entry> entries;

  bool start_object(size_t) override { return ++depth_ == 1 || (depth_ <= kDeepest && named_); }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t) override { return ++depth_ > 1 && depth_ <= kDeepest; }
  bool end_array() override { return --depth_ >= 0; }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      is_aside_ = name == "__metadata__";
      named_ = true;
      if (is_aside_) return true;
      entries.push_back({{.name = name}, {}});
      return names_.insert(name).second;
    }
    if (depth_ == 2) key_ = name;
    return true;
  }

  bool string(std::string& text) override {
    if (is_entry_field("dtype")) entries.back().info.type_name = text;
    return depth_ >= 2;
  }
  bool number_unsigned(uint64_t value) override {
    constexpr uint64_t kMost = uint64_t{1} << 48;  // far above any file; sums do not overflow
    Entry* entry = entries.empty() ? nullptr : &entries.back();
    if (depth_ == 3 && is_entry_field("shape")) {
      entry->info.shape.push_back(static_cast<int64_t>(value));
      return value <= kMost && entry->info.shape.size() <= kMostSafetensorsDimensions;
    }
    if (depth_ == 3 && is_entry_field("data_offsets")) {
      entry->offsets.push_back(value);
      return value <= kMost && entry->offsets.size() <= 2;
    }
    return is_other();
  }

  bool null() override { return is_other(); }
  bool boolean(bool) override { return is_other(); }
  bool number_integer(int64_t) override { return is_other(); }
  bool number_float(double, const std::string&) override { return is_other(); }
  bool binary(Json::binary_t&) override { return false; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr int kDeepest = 8;

  bool is_entry_field(const char* name) const {
    return !is_aside_ && !entries.empty() && key_ == name;
  }
  // In a field that no version of the format has so far.
  bool is_other() const {
    return depth_ >= 2 && !is_entry_field("dtype") && !is_entry_field("shape") &&
           !is_entry_field("data_offsets");
  }

  int depth_ = 0;
  bool named_ = false, is_aside_ = false;
  std::string key_;
  std::set<std::string> names_;
};

/// The error in an entry. Its bytes are among `data_bytes`, of which `left` are not used yet;
/// empty: there is none.
std::string complaint_of(const Entry& entry, uint64_t data_bytes, uint64_t left) {
  const auto& [info, offsets] = entry;
  if (info.type_name.empty() || offsets.size() != 2) return "lacks its type or its place";
  if (offsets[0] > offsets[1] || offsets[1] > data_bytes) return "lies outside of them";
  const uint64_t length = offsets[1] - offsets[0];
  if (length > left) return "has bytes of another one";
  if (info.type == TensorType::other) return "";
  const bool is_empty = std::count(info.shape.begin(), info.shape.end(), 0) > 0;
  uint64_t expected = is_empty ? 0 : size_of(info.type);
  for (const int64_t d : info.shape) {  // divide, because a product may overflow
    if (expected == 0) break;
    if (static_cast<uint64_t>(d) > length / expected) return "has more numbers than bytes";
    expected *= static_cast<uint64_t>(d);
  }
  return expected == length ? "" : "has another number of bytes than of numbers";
}

struct SafetensorsHeader {
  std::vector<Entry> entries;
  uint64_t data_at = 0;
};

Error cut_or_none(const std::string& path, uint64_t bytes, uint64_t announced) {
  return world_error(fmt::format(
      "{} is cut or no safetensors file: {} bytes, its first eight announce a header of {}", path,
      with_commas(bytes), with_commas(announced)));
}

/// `text`: the header of a file of `file_bytes`.
Result<SafetensorsHeader> header_of(const std::string& path, std::string_view text,
                                    uint64_t file_bytes) {
  SafetensorsHeader header;
  header.data_at = sizeof(uint64_t) + text.size();
  const uint64_t data_bytes = file_bytes - header.data_at;
  HeaderTaker taker;
  const bool is_whole = Json::sax_parse(text, &taker);
  header.entries = std::move(taker.entries);
  std::string why = is_whole ? "" : "is no JSON that describes them";
  uint64_t left = data_bytes;
  for (size_t k = 0; k < header.entries.size() && why.empty(); ++k) {
    Entry& entry = header.entries[k];
    for (const TensorTypeNames& known : tensor_types())
      if (entry.info.type_name == known.in_safetensors) entry.info.type = known.type;
    entry.info.place = k;
    why = complaint_of(entry, data_bytes, left);
    if (!why.empty()) why = fmt::format("tensor {} {}", entry.info.name, why);
    if (why.empty()) left -= entry.offsets[1] - entry.offsets[0];
  }
  if (why.empty()) return header;
  return world_error(fmt::format("{} is cut or damaged, {} bytes behind its header: {}", path,
                                 with_commas(data_bytes), why));
}

/// Error: a sentence without its subject.
Status is_number(const TensorInfo& info) {
  if (info.type != TensorType::other) return Done{};
  return world_error(
      fmt::format("is of type {}, accepted: floats, whole numbers and booleans", info.type_name));
}

class SafetensorsReader final : public TensorReader {
 public:
  SafetensorsReader(InputFile file, const SafetensorsHeader& header)
      : file_(std::move(file)), data_at_(header.data_at) {
    for (const Entry& entry : header.entries)
      places_.push_back({entry.offsets[0], entry.offsets[1]});
  }

  Result<StoredTensor> read(const TensorInfo& info) const override {
    const auto [first, last] = places_[info.place];
    StoredTensor tensor{info.name, info.shape, info.type, {}};
    Status read = is_number(info);
    if (read) read = fits_in_memory(last - first);
    if (!read) return world_error(fmt::format("tensor {} {}", info.name, read.error().message));
    tensor.bytes.resize(last - first);
    read = file_.read(data_at_ + first, tensor.bytes.data(), tensor.bytes.size());
    if (!read) return read.error();
    return tensor;
  }

 private:
  const InputFile file_;
  const uint64_t data_at_;
  std::vector<std::pair<uint64_t, uint64_t>> places_;
};

}  // namespace

std::string safetensors_head(const std::vector<ModelTensor>& tensors) {
  std::string head = "{\"__metadata__\":{\"format\":\"pt\"}";
  size_t at = 0;
  for (const ModelTensor& tensor : tensors) {
    const auto name = Json(tensor.name).dump(-1, ' ', false, Json::error_handler_t::replace);
    head += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[", name, name_of(tensor.type));
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
      length > kMaxHeaderBytes)
    return cut_or_none(path, file.size(), length);
  const auto* const text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  const auto header = header_of(path, {text, length}, file.size());
  if (!header) return header.error();
  std::vector<StoredTensor> tensors;
  for (const Entry& entry : header->entries) {
    if (const Status fits = is_number(entry.info); !fits)
      return world_error(
          fmt::format("{}: tensor {} {}", path, entry.info.name, fits.error().message));
    const auto bytes =
        file.subspan(header->data_at + entry.offsets[0], entry.offsets[1] - entry.offsets[0]);
    tensors.push_back(
        {entry.info.name, entry.info.shape, entry.info.type, {bytes.begin(), bytes.end()}});
  }
  return tensors;
}

Result<TensorFile> open_safetensors(InputFile file) {
  uint64_t length = 0;
  const uint64_t size = file.size();
  if (size >= sizeof length)
    if (Status got = file.read(0, &length, sizeof length); !got) return got.error();
  if (size < sizeof length || length > size - sizeof length || length > kMaxHeaderBytes)
    return cut_or_none(file.path(), size, length);
  std::string text(length, '\0');
  if (Status got = file.read(sizeof length, text.data(), length); !got) return got.error();
  const auto header = header_of(file.path(), text, size);
  if (!header) return header.error();
  std::vector<TensorInfo> tensors;
  for (const Entry& entry : header->entries)
    tensors.push_back(entry.info);
  const std::string path = file.path();
  return TensorFile(path, std::move(tensors),
                    std::make_unique<SafetensorsReader>(std::move(file), *header));
}

}  // namespace grapevine
