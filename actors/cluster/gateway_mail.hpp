// Mail to a gateway, and its interface.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "actors/protocol.hpp"
#include "actors/transport/links.hpp"

namespace grapevine {

// What the links say.
struct LinkUp {
  Hello peer;
};
struct LinkDown {
  std::string node, reason;
};
struct TurnedAway {
  std::string from, reason;
};
struct BulkEnded {
  std::string node;
  uint64_t lost = 0;  // frames
  std::string reason;
};
struct DialFailed {
  std::string address, reason;
  bool refused = false;
};
struct Said {
  std::string node;
  ControlMessage message;
};
struct Asked {
  uint64_t console = 0;
  ConsoleRequest request;
};
struct ConsoleGone {
  uint64_t console = 0;
};
constexpr uint64_t kFinal = 0;  // number of the mean at the end of the run; others: of a snapshot

struct ParcelCame {
  std::string node;
  Parcel parcel;
  Payload payload;
};
struct Leave {};  // the others go on
// What the node says.
struct RunEnded {
  std::shared_ptr<const Buffer> mean;  // of the ranks here; null: there are none
  int ranks = 0;
  bool failed = false;
  std::vector<RankParameters> parameters;
};

/// What the gateway learns once everything else has been spawned.
struct GatewayStart {
  std::shared_ptr<Links> links;
  NodeActor node;
  TopologyManagerActor manager;
  std::vector<StateActor> states;
};

using GatewayActor =
    MembershipActor::extend<Takes<GatewayStart>, Takes<LinkUp>, Takes<LinkDown>, Takes<TurnedAway>,
                            Takes<BulkEnded>, Takes<DialFailed>, Takes<Said>, Takes<Asked>,
                            Takes<ConsoleGone>, Takes<ParcelCame>, Takes<RunEnded>,
                            Takes<Finish>, Takes<Leave>, Takes<Tick>>;

}  // namespace grapevine

#define GV_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::type)
GV_LOCAL_MESSAGE(LinkUp)
GV_LOCAL_MESSAGE(LinkDown)
GV_LOCAL_MESSAGE(TurnedAway)
GV_LOCAL_MESSAGE(BulkEnded)
GV_LOCAL_MESSAGE(DialFailed)
GV_LOCAL_MESSAGE(Said)
GV_LOCAL_MESSAGE(Asked)
GV_LOCAL_MESSAGE(ConsoleGone)
GV_LOCAL_MESSAGE(ParcelCame)
GV_LOCAL_MESSAGE(Leave)
GV_LOCAL_MESSAGE(RunEnded)
GV_LOCAL_MESSAGE(GatewayStart)
#undef GV_LOCAL_MESSAGE
