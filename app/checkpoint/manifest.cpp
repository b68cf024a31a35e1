#include "app/checkpoint/manifest.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/system/json_text.hpp"
#include "app/system/words.hpp"
#include "kernels/base/checksum.hpp"

namespace grapevine {
namespace {

using Json = nlohmann::json;

constexpr size_t kEdgesAtMost = 1 << 20;
constexpr uint32_t kMostGenerations = 1 << 16;  // the most that members accept
constexpr size_t kNameBytes = 64;               // of a score's measure
constexpr char kHash[] = "xxh3";

std::string hash_of(Json object) {
  object.erase(kHash);
  const std::string rest = json_text(object);
  Checksum sum;
  sum.add(rest.data(), rest.size());
  return as_hex(sum.value());
}

std::string text_with_hash(Json object) {
  object[kHash] = hash_of(object);
  return json_text(object, 1) + "\n";
}

bool has_its_hash(const Json& object) {
  return object.is_object() && object.contains(kHash) && object[kHash] == hash_of(object);
}

Json json_of(const RankFile& rank) {
  Json counters = Json::object(), edges = Json::array();
  for (const auto& [name, count] : rank.counters)
    counters[name] = count;
  for (const RankRecord::Edge& e : rank.edges)
    edges.push_back({{"peer", e.peer},
                     {"incarnation", e.incarnation},
                     {"peer_incarnation", e.peer_incarnation},
                     {"exchanges", e.exchanges},
                     {"moved", e.moved},
                     {"last_jump", e.last}});
  Json object = {{"rank", rank.rank},           {"file", rank.file},
                 {"bytes", rank.bytes},         {kHash, as_hex(rank.hash)},
                 {"gradients", rank.gradients}, {"data_position", rank.position},
                 {"counters", counters},        {"edges", edges}};
  const auto& [bytes, hash, steps] = rank.kept;
  if (bytes > 0) object["kept"] = {{"bytes", bytes}, {kHash, as_hex(hash)}, {"steps", steps}};
  const auto& [key, passes, samples, local_steps] = rank.share;
  if (key != 0 || local_steps > 0)
    object["share"] = {
        {"key", key}, {"passes", passes}, {"samples", samples}, {"local_steps", local_steps}};
  return object;
}

Json json_of(const Score& score) {
  return {{"by", score.by},
          {"value", score.value},
          {"more_is_better", score.more_is_better},
          {"gradients", score.gradients}};
}

Json json_of(const std::vector<DataCut>& cuts) {
  Json array = Json::array();
  for (const DataCut& cut : cuts)
    array.push_back({{"taken", cut.taken}, {"first", cut.first}});
  return array;
}

Json json_of(const std::vector<TensorShape>& tensors) {
  Json array = Json::array();
  for (const TensorShape& tensor : tensors)
    array.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  return array;
}

/// Reads members of objects that anybody may have written. good() is false after the first one that
/// is missing or of the wrong type.
class MemberReader {
 public:
  explicit MemberReader(std::string& complaint) : complaint_(complaint) {}

  bool good() const { return complaint_.empty(); }

  const Json& at(const Json& object, const char* name, bool (Json::*is)() const noexcept) {
    static const Json none;
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (object.is_object() && found != object.end() && ((*found).*is)()) return *found;
    if (good()) complaint_ = name;
    return none;
  }
  std::string text(const Json& object, const char* name) {
    const Json& member = at(object, name, &Json::is_string);
    return member.is_string() ? member.get<std::string>() : "";
  }
  uint64_t count(const Json& object, const char* name, uint64_t most = ~uint64_t{0}) {
    const Json& member = at(object, name, &Json::is_number_unsigned);
    const uint64_t value = member.is_number_unsigned() ? member.get<uint64_t>() : 0;
    if (value > most && good()) complaint_ = name;
    return value;
  }
  uint64_t hash(const Json& object, const char* name) {
    const std::string digits = text(object, name);
    char* end = nullptr;
    const uint64_t value = std::strtoull(digits.c_str(), &end, 16);
    if ((digits.size() != 16 || *end != '\0') && good()) complaint_ = name;
    return value;
  }
  std::vector<uint64_t> counts(const Json& object, const char* name, size_t most) {
    const Json& member = at(object, name, &Json::is_array);
    std::vector<uint64_t> values;
    for (const Json& value : member.is_array() ? member : Json::array()) {
      const bool fits = value.is_number_unsigned() && values.size() < most;
      if (!fits && good()) complaint_ = name;
      if (!fits) break;
      values.push_back(value.get<uint64_t>());
    }
    return values;
  }
  double norm(const Json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || found == object.end() || !found->is_number()) return 0;  // unknown
    return found->get<double>();
  }

 private:
  std::string& complaint_;
};

uint64_t format_of(const Json& object) {
  std::string complaint;
  return MemberReader(complaint).count(object, "format");
}

RankRecord::Edge edge_of(const Json& json, MemberReader& read) {
  RankRecord::Edge edge;
  edge.peer = static_cast<int>(read.count(json, "peer", 1 << 30));
  edge.incarnation = static_cast<uint32_t>(read.count(json, "incarnation", ~uint32_t{0}));
  edge.peer_incarnation = static_cast<uint32_t>(read.count(json, "peer_incarnation", ~uint32_t{0}));
  edge.exchanges = read.count(json, "exchanges");
  edge.moved = read.norm(json, "moved");
  edge.last = read.norm(json, "last_jump");
  return edge;
}

RankFile rank_of(const Json& json, MemberReader& read) {
  RankFile rank;
  rank.rank = static_cast<int>(read.count(json, "rank", 1 << 30));
  rank.file = rank_file_name(rank.rank);  // never another path
  rank.bytes = read.count(json, "bytes");
  rank.hash = read.hash(json, kHash);
  rank.gradients = read.count(json, "gradients");
  rank.position = read.count(json, "data_position");
  if (json.contains("kept")) {
    const Json& kept = json["kept"];
    rank.kept = {read.count(kept, "bytes"), read.hash(kept, kHash), read.count(kept, "steps")};
  }
  if (json.contains("share")) {
    const Json& share = json["share"];
    rank.share = {static_cast<uint32_t>(read.count(share, "key", ~uint32_t{0})),
                  read.count(share, "passes"), read.count(share, "samples"),
                  share.contains("local_steps") ? read.count(share, "local_steps") : 0};
  }
  const Json& edges = read.at(json, "edges", &Json::is_array);
  for (size_t k = 0; k < edges.size() && k < kEdgesAtMost && read.good(); ++k)
    rank.edges.push_back(edge_of(edges[k], read));
  return rank;
}

Score score_of(const Json& json, MemberReader& read) {
  Score score;
  score.by = read.text(json, "by").substr(0, kNameBytes);
  const Json& value = read.at(json, "value", &Json::is_number);
  score.value = value.is_number() ? value.get<double>() : 0;
  const Json& more = read.at(json, "more_is_better", &Json::is_boolean);
  score.more_is_better = more.is_boolean() && more.get<bool>();
  score.gradients = read.count(json, "gradients");
  return score;
}

std::vector<DataCut> cuts_of(const Json& json, MemberReader& read) {
  constexpr size_t kRanksAtMost = 1 << 20;
  std::vector<DataCut> cuts;
  for (size_t k = 0; k < json.size() && k < kCutsAtMost && read.good(); ++k)
    cuts.push_back(
        {read.counts(json[k], "taken", kRanksAtMost), read.counts(json[k], "first", kRanksAtMost)});
  return cuts;
}

std::vector<TensorShape> tensors_of(const Json& json, MemberReader& read) {
  constexpr size_t kDimensionsAtMost = 64;
  std::vector<TensorShape> tensors;
  for (size_t k = 0; k < json.size() && read.good(); ++k) {
    tensors.push_back({read.text(json[k], "name"), {}});
    for (const uint64_t d : read.counts(json[k], "shape", kDimensionsAtMost))
      tensors.back().shape.push_back(static_cast<int64_t>(d));
  }
  return tensors;
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank-{}.safetensors", rank); }

std::string kept_file_name(int rank) { return fmt::format("rank-{}.kept", rank); }

std::string checkpoint_name(uint64_t gradients) { return fmt::format("{:09}", gradients); }

std::string text_of(const CheckpointManifest& m) {
  Json ranks = Json::array();
  for (const RankFile& rank : m.ranks)
    ranks.push_back(json_of(rank));
  Json object = {{"format", kCheckpointFormat},
                 {"serial", m.serial},
                 {"job", as_hex(m.run.job)},
                 {"layout", as_hex(m.run.layout)},
                 {"job_is", m.run.job_is},
                 {"node", m.run.node},
                 {"written", m.written},
                 {"gradients", m.gradients},
                 {"trained_seconds", m.trained_s},
                 {"epoch", m.epoch},
                 {"topology", m.topology},
                 {"options", json_of_text<Json>(m.run.options)},
                 {"ranks", ranks}};
  if (m.score && std::isfinite(m.score->value)) object["score"] = json_of(*m.score);
  if (!m.run.tensors.empty()) object["tensors"] = json_of(m.run.tensors);
  if (m.run.data != 0) object["data"] = {{"is", m.run.data_is}, {kHash, as_hex(m.run.data)}};
  if (!m.run.cuts.empty()) object["cuts"] = json_of(m.run.cuts);
  if (m.run.generation > 0) object["generation"] = m.run.generation;
  return text_with_hash(std::move(object));
}

std::string sealed(const std::string& object) { return text_with_hash(json_of_text<Json>(object)); }

CheckpointFolder folder_of(const std::string& manifest_text) {
  using Manifest = CheckpointFolder::Manifest;
  if (const auto read = parse_manifest("", manifest_text))
    return {Manifest::good, read->serial, read->score};
  const Json object = json_of_text<Json>(manifest_text);
  const bool is_later = has_its_hash(object) && format_of(object) > kCheckpointFormat;
  return {is_later ? Manifest::later : Manifest::damaged, 0, {}};
}

Result<CheckpointManifest> parse_manifest(const std::string& path, const std::string& text) {
  const Json object = json_of_text<Json>(text);
  if (!has_its_hash(object))
    return user_error(path + " is damaged or no manifest: its hash differs from its contents");
  if (const uint64_t format = format_of(object); format > kCheckpointFormat)
    return user_error(fmt::format("{} has format {}, accepted: {}; a later grapevine wrote it",
                                  path, format, kCheckpointFormat));
  std::string complaint;
  MemberReader read(complaint);
  CheckpointManifest m;
  m.serial = read.count(object, "serial", ~uint64_t{0} >> 1);
  m.run.job = read.hash(object, "job");
  m.run.layout = read.hash(object, "layout");
  m.run.job_is = read.text(object, "job_is");
  m.run.node = read.text(object, "node");
  m.run.options = json_text(read.at(object, "options", &Json::is_object));
  m.written = read.text(object, "written");
  m.gradients = read.count(object, "gradients");
  m.trained_s = std::max(0.0, read.norm(object, "trained_seconds"));
  m.epoch = read.count(object, "epoch", ~uint64_t{0} >> 1);
  m.topology = read.text(object, "topology");
  if (object.contains("score")) m.score = score_of(object["score"], read);
  if (object.contains("tensors"))
    m.run.tensors = tensors_of(read.at(object, "tensors", &Json::is_array), read);
  if (object.contains("cuts")) m.run.cuts = cuts_of(read.at(object, "cuts", &Json::is_array), read);
  if (object.contains("data")) {
    const Json& data = read.at(object, "data", &Json::is_object);
    m.run.data = read.hash(data, kHash);
    m.run.data_is = read.text(data, "is");
  }
  if (object.contains("generation"))
    m.run.generation = static_cast<uint32_t>(read.count(object, "generation", kMostGenerations));
  const Json& ranks = read.at(object, "ranks", &Json::is_array);
  int last = -1;
  for (size_t k = 0; k < ranks.size() && read.good(); ++k) {
    m.ranks.push_back(rank_of(ranks[k], read));
    if (m.ranks.back().rank <= last && read.good()) complaint = "ranks";
    last = m.ranks.back().rank;
  }
  if (read.good() && m.ranks.empty()) complaint = "ranks";
  if (!read.good())
    return user_error(
        fmt::format("{} is no manifest: \"{}\" is missing or has a wrong value", path, complaint));
  return m;
}

}  // namespace grapevine
