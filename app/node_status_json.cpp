#include "app/node_status_json.hpp"

#include <algorithm>
#include <map>

#include "actors/conversations/member_table.hpp"
#include "models/model_file.hpp"

namespace grapevine {
namespace {

const char* name_of(MemberState state) {
  switch (state) {
    case MemberState::alive: return "alive";
    case MemberState::suspect: return "suspect";
    case MemberState::dead: return "dead";
    case MemberState::left: break;
  }
  return "left";
}

const char* name_of(BulkPath path) {
  switch (path) {
    case BulkPath::none: return "none";
    case BulkPath::tcp: return "tcp";
    case BulkPath::tls: return "tls";
    case BulkPath::unix_socket: return "unix";
    case BulkPath::shared_memory: break;
  }
  return "shared memory";
}

Json members_json(const NodeStatus& s) {
  Json members = Json::array();
  for (const Member& m : s.members) {
    Json ranks = Json::array();
    for (uint32_t k = 0; k < m.ranks && m.first_rank != kAnyRank; ++k)
      ranks.push_back(m.first_rank + k);
    members.push_back({{"node", m.node},
                       {"state", name_of(m.state)},
                       {"incarnation", m.life},
                       {"address", m.address},
                       {"ranks", ranks},
                       {"ready", m.ready},
                       {"finished", m.finished}});
  }
  return members;
}

Json links_json(const NodeStatus& s) {
  Json links = Json::array();
  for (const NodeStatus::Link& link : s.links) {
    const LinkCounts& c = link.counts;
    links.push_back({{"node", link.node},
                     {"round_trip_seconds", link.round_trip_s},
                     {"bulk", name_of(c.bulk)},
                     {"bytes_sent", c.message_bytes_sent + c.frame_bytes_sent},
                     {"bytes_received", c.message_bytes_received + c.frame_bytes_received},
                     {"refused", c.refused},
                     {"discarded", c.discarded},
                     {"lost", c.lost}});
  }
  return links;
}

// The edges of the ranks here, each once.
Json edges_json(const NodeStatus& s) {
  std::map<std::pair<int, int>, double> rates;
  for (const EdgeRate& rate : s.rates)
    rates[{static_cast<int>(rate.i), static_cast<int>(rate.j)}] = rate.per_second;
  std::map<int, double> round_trips;  // by rank of another node
  for (const NodeStatus::Link& link : s.links)
    for (const Member& m : s.members)
      for (uint32_t k = 0; m.node == link.node && k < m.ranks; ++k)
        round_trips[static_cast<int>(m.first_rank + k)] = link.round_trip_s;
  struct Sum {
    uint64_t exchanges = 0, bytes = 0, declined = 0;
  };
  std::map<std::pair<int, int>, Sum> edges;
  for (const CommunicatorReport& c : s.ranks.communicators) {
    for (const EdgeCount& e : c.edges) {
      Sum& sum = edges[std::minmax(c.rank, e.peer)];
      sum.exchanges = std::max(sum.exchanges, e.applied);
    }
    for (const PeerTraffic& t : c.traffic) {
      Sum& sum = edges[std::minmax(c.rank, t.peer)];
      sum.bytes += t.bytes;
      sum.declined += t.declined;
    }
  }
  Json out = Json::array();
  for (const auto& [ends, count] : edges) {
    const auto rate = rates.find(ends);
    double round_trip_s = 0;
    for (const int rank : {ends.first, ends.second})
      if (const auto found = round_trips.find(rank); found != round_trips.end())
        round_trip_s = found->second;
    out.push_back({{"ranks", {ends.first, ends.second}},
                   {"exchanges", count.exchanges},
                   {"exchanges_per_second", rate == rates.end() ? 0 : rate->second},
                   {"round_trip_seconds", round_trip_s},
                   {"bytes", count.bytes},
                   {"declined", count.declined}});
  }
  return out;
}

Json refusals_json(const NodeStatus& s) {
  Counts sum;
  for (const CommunicatorReport& c : s.ranks.communicators) {
    sum.declined += c.counts.declined;
    sum.repeated += c.counts.repeated;
    sum.broken_before += c.counts.broken_before;
    sum.broken_after += c.counts.broken_after;
    sum.protocol_errors += c.counts.protocol_errors;
  }
  return {{"offers_declined", sum.declined},
          {"frames_repeated", sum.repeated},
          {"protocol_errors", sum.protocol_errors},
          {"exchanges_broken_before", sum.broken_before},
          {"exchanges_broken_after", sum.broken_after},
          {"frames_lost_by_plan", s.frames.lost},
          {"frames_without_link", s.frames.refused},
          {"frames_of_strangers", s.frames.strangers}};
}

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64_of(const unsigned char* data, size_t size) {
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (size_t k = 0; k < size; k += 3) {
    const size_t n = std::min<size_t>(3, size - k);
    uint32_t word = 0;
    for (size_t b = 0; b < 3; ++b)
      word = word << 8 | (b < n ? data[k + b] : 0u);
    for (size_t c = 0; c < 4; ++c)
      text += c <= n ? kLetters[word >> (18 - 6 * c) & 63] : '=';
  }
  return text;
}

std::vector<unsigned char> bytes_of(const std::string& text) {
  unsigned char value[256];
  std::fill(std::begin(value), std::end(value), static_cast<unsigned char>(64));
  for (unsigned char k = 0; k < 64; ++k)
    value[static_cast<unsigned char>(kLetters[k])] = k;
  std::vector<unsigned char> bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    const unsigned char v = value[static_cast<unsigned char>(c)];
    if (v == 64) break;
    word = word << 6 | v;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<unsigned char>(word >> bits & 255));
  }
  return bytes;
}

}  // namespace

Json json_of(const NodeStatus& s) {
  Json gradients = Json::array(), exchanges = Json::array();
  for (const WorkerReport& w : s.ranks.workers)
    gradients.push_back(w.gradients);
  for (const CommunicatorReport& c : s.ranks.communicators)
    exchanges.push_back(c.counts.applied);
  if (s.ranks.workers.empty())
    for (size_t k = 0; k < exchanges.size(); ++k)
      gradients.push_back(0);
  return {{"node", s.node},
          {"uptime_seconds", s.uptime_s},
          {"members", members_json(s)},
          {"epoch", s.roster_epoch},
          {"topology", s.graph.topology},
          {"graph", s.epoch.topology},
          {"graph_ranks", s.epoch.ranks},
          {"chi1", s.epoch.chi1},
          {"chi2", s.epoch.chi2},
          {"eta", s.epoch.eta},
          {"alpha_tilde", s.epoch.alpha_tilde},
          {"gradients", gradients},
          {"exchanges", exchanges},
          {"edges", edges_json(s)},
          {"links", links_json(s)},
          {"refusals", refusals_json(s)},
          {"events", s.events}};
}

Json snapshot_json(const ParameterLayout& layout, const Buffer& mean, int ranks) {
  Json tensors = Json::array();
  for (const ParameterEntry& entry : layout.entries())
    tensors.push_back({{"name", entry.name}, {"shape", entry.shape}});
  const ConstVec x = mean.vec();
  return {{"ranks", ranks},
          {"dtype", layout.dtype() == DType::f64 ? "f64" : "f32"},
          {"tensors", tensors},
          {"data", base64_of(static_cast<const unsigned char*>(x.data), x.bytes())}};
}

Status write_snapshot(const Json& snapshot, const std::string& path) {
  const Error malformed = world_error("the node's answer is not a snapshot");
  if (!snapshot.is_object() || !snapshot.contains("tensors") || !snapshot.contains("data") ||
      !snapshot["tensors"].is_array() || !snapshot["data"].is_string())
    return malformed;
  const bool wide = snapshot.value("dtype", "") == "f64";
  const std::vector<unsigned char> bytes = bytes_of(snapshot["data"].get<std::string>());
  std::vector<ModelTensor> tensors;
  size_t at = 0;
  for (const Json& entry : snapshot["tensors"]) {
    if (!entry.is_object() || !entry.contains("shape") || !entry["shape"].is_array())
      return malformed;
    ModelTensor tensor;
    tensor.name = entry.value("name", "");
    tensor.type = wide ? TensorType::f64 : TensorType::f32;
    for (const Json& size : entry["shape"]) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > bytes.size()) return malformed;
      tensor.shape.push_back(size.get<int64_t>());
    }
    if (tensor.bytes() > bytes.size() - at) return malformed;
    tensor.data = bytes.data() + at;
    at += tensor.bytes();
    tensors.push_back(std::move(tensor));
  }
  if (at != bytes.size()) return malformed;
  return write_safetensors(path, tensors);
}

}  // namespace grapevine
