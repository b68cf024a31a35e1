// NodeStatus: one node's knowledge of the run, for consoles. A value.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "actors/mail/mail_node.hpp"
#include "actors/settings/member_work.hpp"
#include "actors/transport/link_transport.hpp"

namespace grapevine {

class Membership;

struct NodeStatus {
  std::string node;
  double uptime_s = 0;
  std::vector<Member> members;
  GraphSpec graph;
  uint64_t roster_epoch = 0;
  EpochInfo epoch;              // the last one with constants, and the newest of these
  NodeReport ranks;             // those here
  std::vector<EdgeRate> rates;  // of all edges
  struct Link {
    std::string node;
    double round_trip_s = 0;
    LinkCounts counts;
  };
  std::vector<Link> links;
  LinkCounts link_totals;  // of all links so far, also closed ones
  LinkTransport::Counts frames;
  std::vector<DeviceEdge> device_edges;  // if the ranks here are on a device
  LinkRefusals refusals{};               // by the links
  std::vector<StateReport> states;
  std::vector<Departure> departures;               // the last ones
  std::map<std::string, uint64_t> turned_away;     // before admission, by reason
  std::map<std::string, uint64_t> disbelieved;     // claims about nodes, by reason
  std::map<std::string, uint64_t> refused_pieces;  // of means, by reason
  // Ranks of other nodes that did not answer in time.
  uint64_t suspects = 0;
  std::vector<std::string> events;  // the last ones
};

/// The part of the status that the membership knows. The rest is empty.
NodeStatus status_of(const Membership&);

/// The work of all other members. A member without a report has number 0.
std::vector<MemberWork> work_of_others(const Membership&);

}  // namespace grapevine
