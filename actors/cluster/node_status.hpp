// NodeStatus: what one node of a run knows of the run, for consoles. A value.
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
  EpochInfo epoch;              // the last one whose constants were found, and the newest of them
  NodeReport ranks;             // those here
  std::vector<EdgeRate> rates;  // of all edges, as heard
  struct Link {
    std::string node;
    double round_trip_s = 0;
    LinkCounts counts;
  };
  std::vector<Link> links;
  LinkCounts link_totals;  // of all links there have been
  LinkTransport::Counts frames;
  std::vector<DeviceEdge> device_edges;  // where the ranks here live on a device
  LinkRefusals refusals{};               // by the links
  std::vector<StateReport> states;
  std::vector<Departure> departures;               // the last ones
  std::map<std::string, uint64_t> turned_away;     // before admission, by reason
  std::map<std::string, uint64_t> disbelieved;     // of what members said of nodes, by reason
  std::map<std::string, uint64_t> refused_pieces;  // of means, by reason
  uint64_t suspects = 0;                           // ranks of others that did not answer in time
  std::vector<std::string> events;                 // the last ones
};

/// The part of the status that the membership knows; the rest is empty.
NodeStatus status_of(const Membership&);

/// The work of all other members. A member that has told nothing yet has number 0.
std::vector<MemberWork> work_of_others(const Membership&);

}  // namespace grapevine
