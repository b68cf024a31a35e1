#include "app/output/node_status_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "actors/membership/member_table.hpp"
#include "app/output/cost_report.hpp"

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
                       {"incarnation", m.incarnation},
                       {"address", m.address},
                       {"ranks", ranks},
                       {"ready", m.ready},
                       {"finished", m.finished}});
  }
  return members;
}

Json counts_json(const LinkCounts& c) {
  return {{"bytes_sent", c.message_bytes_sent + c.frame_bytes_sent + c.parcel_bytes_sent},
          {"bytes_received",
           c.message_bytes_received + c.frame_bytes_received + c.parcel_bytes_received},
          {"parcel_bytes_sent", c.parcel_bytes_sent},
          {"refused", c.refused},
          {"discarded", c.discarded},
          {"lost", c.lost},
          {"corrupt", c.corrupt}};
}

Json links_json(const NodeStatus& s) {
  Json links = Json::array();
  for (const NodeStatus::Link& link : s.links) {
    links.push_back(counts_json(link.counts));
    links.back().update({{"node", link.node},
                         {"round_trip_seconds", link.round_trip_s},
                         {"bulk", name_of(link.counts.bulk)}});
  }
  return links;
}

// For ranks on a device: how their payloads travel to and from each other process.
Json device_links_json(const NodeStatus& s) {
  const auto way = [](bool in_place, bool by_nccl) {
    return in_place ? "vmm" : by_nccl ? "nccl" : "host";
  };
  Json links = Json::array();
  for (const DeviceEdge& edge : s.device_edges)
    links.push_back({{"node", edge.node},
                     {"sends", way(edge.sends_in_place, edge.has_nccl)},
                     {"receives", way(edge.receives_in_place, edge.has_nccl)},
                     {"sent_in_place", edge.lent},
                     {"read_in_place", edge.borrowed},
                     {"sent_by_nccl", edge.sent_by_nccl},
                     {"received_by_nccl", edge.received_by_nccl},
                     {"broken_off_by_nccl", edge.broken_by_nccl},
                     {"sends_by_host_because", edge.why},
                     {"receives_by_host_because", edge.not_read}});
  return links;
}

using Ends = std::pair<int, int>;

// An edge; the data are of both ends if both are here.
struct Edge {
  uint64_t exchanges = 0, bytes = 0, declined = 0;
  double applied_at = -1, distance = std::numeric_limits<double>::quiet_NaN();
  double allowance = 1;  // the rest of it, at the end with less
  uint64_t clipped = 0, not_finite = 0;
  bool in_graph = false;
};

// The edges of the ranks here, each once.
std::map<Ends, Edge> edges_of(const NodeStatus& s) {
  std::map<Ends, Edge> edges;
  for (const CommunicatorReport& c : s.ranks.communicators) {
    for (const EdgeCount& e : c.edges) {
      Edge& edge = edges[std::minmax(c.rank, e.peer)];
      edge.exchanges = std::max(edge.exchanges, e.applied);
      edge.applied_at = std::max(edge.applied_at, e.applied_at);
      edge.clipped = std::max(edge.clipped, e.clipped);
      edge.not_finite = std::max(edge.not_finite, e.not_finite);
      edge.in_graph = edge.in_graph || e.in_graph;
    }
    for (const PeerTraffic& t : c.traffic) {
      Edge& edge = edges[std::minmax(c.rank, t.peer)];
      edge.bytes += t.bytes;
      edge.declined += t.declined;
    }
  }
  for (const StateReport& state : s.states)
    for (const EdgeDistance& d : state.distances) {
      const auto found = edges.find(std::minmax(d.rank, d.peer));
      if (found == edges.end()) continue;  // no edge: judged for all senders together
      Edge& edge = found->second;
      if (!std::isnan(d.distance)) edge.distance = d.distance;
      edge.allowance = std::min(edge.allowance, d.allowance);
    }
  return edges;
}

Json edges_json(const NodeStatus& s) {
  std::map<Ends, double> rates;
  for (const EdgeRate& rate : s.rates)
    rates[{static_cast<int>(rate.i), static_cast<int>(rate.j)}] = rate.per_second;
  std::map<int, double> round_trips;  // by rank of another node
  for (const NodeStatus::Link& link : s.links)
    for (const Member& m : s.members)
      for (uint32_t k = 0; m.node == link.node && k < m.ranks; ++k)
        round_trips[static_cast<int>(m.first_rank + k)] = link.round_trip_s;
  Json out = Json::array();
  for (const auto& [ends, edge] : edges_of(s)) {
    const auto rate = rates.find(ends);
    double round_trip_s = 0;
    for (const int rank : {ends.first, ends.second})
      if (const auto found = round_trips.find(rank); found != round_trips.end())
        round_trip_s = found->second;
    out.push_back(
        {{"ranks", {ends.first, ends.second}},
         {"in_graph", edge.in_graph},
         {"exchanges", edge.exchanges},
         {"exchanges_per_second", edge.in_graph && rate != rates.end() ? rate->second : 0},
         {"round_trip_seconds", round_trip_s},
         {"staleness_seconds", edge.applied_at < 0 ? Json() : Json(s.uptime_s - edge.applied_at)},
         {"distance", edge.distance},
         {"allowance_left", edge.allowance},
         {"clipped", edge.clipped},
         {"not_finite", edge.not_finite},
         {"bytes", edge.bytes},
         {"declined", edge.declined}});
  }
  return out;
}

// Half the mean square distance across the edges of the ranks here. Pairs of random ranks would
// give n / (n - 1) times the consensus distance; neighbours on a sparse graph are nearer.
double consensus_distance_of(const NodeStatus& s) {
  double squares = 0;
  int count = 0;
  for (const auto& [ends, edge] : edges_of(s)) {
    if (!edge.in_graph || std::isnan(edge.distance)) continue;
    squares += edge.distance * edge.distance;
    ++count;
  }
  return count > 0 ? squares / (2 * count) : std::numeric_limits<double>::quiet_NaN();
}

template <class Report>
std::vector<Report> by_rank(std::vector<Report> reports) {
  std::sort(reports.begin(), reports.end(),
            [](const Report& a, const Report& b) { return a.rank < b.rank; });
  return reports;
}

Json declines_json(const NodeStatus& s) {
  constexpr const char* kNames[kDeclineReasons] = {"none",         "busy",  "not_yet",   "repeat",
                                                   "older_caller", "epoch", "no_buffer", "gone"};
  Json by_reason = Json::object();
  for (size_t k = 1; k < kDeclineReasons; ++k)
    by_reason[kNames[k]] = s.ranks.declines[k];
  return by_reason;
}

Json refusals_json(const NodeStatus& s) {
  Counts sum = s.ranks.carried;
  for (const CommunicatorReport& c : s.ranks.communicators)
    sum += c.counts;
  double broken_after_norm = 0;
  for (const StateReport& state : s.states)
    broken_after_norm += state.broken_after_norm;
  Json by_links = Json::object();
  for (size_t k = 0; k < kLinkRefusals; ++k)
    by_links[kLinkRefusalNames[k]] = s.refusals[k];
  return {{"offers_declined", sum.declined},
          {"declined_because", declines_json(s)},
          {"frames_repeated", sum.repeated},
          {"protocol_errors", sum.protocol_errors},
          {"exchanges_broken_before", sum.broken_before},
          {"exchanges_broken_after", sum.broken_after},
          {"exchanges_broken_after_norm", broken_after_norm},
          {"exchanges_clipped", sum.clipped},
          {"exchanges_not_finite", sum.not_finite},
          {"edges_renewed", sum.renewed},
          {"frames_of_strangers", s.frames.strangers},
          {"frames_misdirected", s.frames.misdirected},
          {"by_links", by_links},
          {"turned_away", s.turned_away},
          {"disbelieved", s.disbelieved},
          {"pieces", s.refused_pieces}};
}

Json lost_json(const NodeStatus& s) {
  uint64_t messages = s.ranks.carried.lost, overflowed = 0;
  for (const CommunicatorReport& c : s.ranks.communicators) {
    messages += c.counts.lost;
    overflowed += c.overflowed;
  }
  return {{"by_plan", s.frames.lost},
          {"corrupted_by_plan", s.frames.corrupt},
          {"corrupt", s.link_totals.corrupt},
          {"no_link_or_full_queue", s.frames.refused},
          {"no_buffer", s.link_totals.discarded},
          {"link_ended", s.link_totals.lost},
          {"paused_rank", overflowed},
          {"rounds_without", messages}};
}

Json round_trips_json(const DurationCounts& counts) {
  return {{"bounds", kDurationBounds}, {"counts", counts.buckets}, {"sum_seconds", counts.sum_s}};
}

Json edge_round_trips_json(const std::vector<EdgeDurations>& edges) {
  Json out = Json::array();
  for (const EdgeDurations& e : edges)
    out.push_back({{"ranks", e.rank < 0 ? Json() : Json{e.rank, e.peer}},
                   {"counts", e.counts.buckets},
                   {"sum_seconds", e.counts.sum_s}});
  return out;
}

}  // namespace

Json departures_json(const std::vector<Departure>& departures) {
  Json out = Json::array();
  for (const Departure& d : departures)
    out.push_back({{"node", d.node},
                   {"state", d.polite ? "left" : "dead"},
                   {"at", d.at_s},
                   {"ranks", d.ranks},
                   {"of", d.of},
                   {"mean_changed_by", d.mean_changed_by}});
  return out;
}

Json json_of(const NodeStatus& s) {
  Json gradients = Json::array(), exchanges = Json::array(), idle = Json::array(),
       alive = Json::array(), ranks = Json::array();
  for (const WorkerReport& w : by_rank(s.ranks.workers)) {
    gradients.push_back(w.gradients);
    idle.push_back(w.idle_s);
    alive.push_back(w.alive_s);
  }
  for (const CommunicatorReport& c : by_rank(s.ranks.communicators)) {
    ranks.push_back(c.rank);
    exchanges.push_back(c.counts.applied);
  }
  std::map<int, double> weight_of;
  for (const StateReport& state : s.states)
    for (const auto& [rank, counts] : state.counts)
      if (counts.push_weight > 0) weight_of[rank] = counts.push_weight;
  Json weights = Json::array();  // by rank, of push-sum
  for (const auto& [rank, weight] : weight_of)
    weights.push_back(weight);
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
          {"constants_age_seconds", s.uptime_s - s.epoch.solved_at_s},
          {"ranks_here", ranks},
          {"gradients", gradients},
          {"learning_rate", s.ranks.learning_rate},
          {"idle_seconds", idle},
          {"alive_seconds", alive},
          {"exchanges", exchanges},
          {"cost", json_of(cost_of(s.ranks.costs))},
          {"edges", edges_json(s)},
          {"round_trips", round_trips_json(s.ranks.round_trips)},
          {"edge_round_trips", edge_round_trips_json(s.ranks.edge_round_trips)},
          {"links", links_json(s)},
          {"link_totals", counts_json(s.link_totals)},
          {"device_links", device_links_json(s)},
          {"consensus_distance", consensus_distance_of(s)},
          {"push_weights", weights},
          {"refusals", refusals_json(s)},
          {"frames_lost", lost_json(s)},
          {"suspects", s.suspects},
          {"departures", departures_json(s.departures)},
          {"events", s.events}};
}

}  // namespace grapevine
