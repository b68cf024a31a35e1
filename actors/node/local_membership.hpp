// LocalMembership: the actor that owns the membership of a run of one process, whose only members
// are its own ranks. It sends each new roster to the topology manager, and ends the run when the
// ranks have taken their gradients.
#pragma once
#include <memory>
#include <string>

#include "actors/mail/mail_node.hpp"
#include "actors/membership/local_roster.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

/// Sent once all other actors are spawned: the first epoch and its ranks may begin.
struct LocalStart {
  NodeActor node;
  TopologyManagerActor manager;
};

using LocalMembershipActor = MembershipActor::extend<Takes<LocalStart>>;

class LocalMembership final : public LocalMembershipActor::base {
 public:
  LocalMembership(caf::actor_config& config, std::shared_ptr<const Settings> settings,
                  uint64_t first_epoch = 1);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override { parts_ = {}; }

 private:
  caf::result<std::string> reconfigure(const std::string& topology);
  int source_for(int rank) const;
  void tell() { send(parts_.manager, roster_.roster()); }

  std::shared_ptr<const Settings> settings_;
  LocalRoster roster_;
  LocalStart parts_;
  bool ends_ = false;
};

}  // namespace grapevine

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::LocalStart)
