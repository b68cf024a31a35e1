// GatewayDependencies: what a Gateway is given when it is spawned, and what it tells at its end.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/cluster/node_status.hpp"
#include "actors/cluster/state_transfer.hpp"
#include "actors/membership/membership.hpp"
#include "actors/run/settings.hpp"
#include "actors/transport/link_transport.hpp"

namespace grapevine {

struct GatewayDependencies {
  RunClock clock;
  std::shared_ptr<const Settings> settings;
  std::shared_ptr<LinkTransport> transport;
  Member self;
  MembershipOptions membership;
  int total_ranks = 0;     // to wait for before the run begins; 0: it begins at once
  double patience_s = 15;  // for them, and for what is awaited at the end
  std::function<void(const std::string&)> say;
  std::function<std::string(const NodeStatus&)> render;  // for consoles
  std::function<std::string(const Buffer& mean, int ranks)> render_snapshot;
  SnapshotShape shape;  // of a rank's state; its count is the parameters'
  std::function<Result<Plan>(const std::string& text)> read_plan;
  struct Ending {
    std::optional<Error> failure;
    std::shared_ptr<const Buffer> mean;  // of all ranks; null: no ranks were left
    int ranks = 0;                       // whose parameters are in it
    int nodes = 0;
    std::vector<Departure> departures;
  };
  std::function<void(Ending)> done;  // called once
};

}  // namespace grapevine
