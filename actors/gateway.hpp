// Gateway: the actor between a process and the others of its run. It owns the membership and the
// way in and out: it joins, tells the topology manager each new roster, tells its links whom to
// reach, answers consoles, and at the end trades means with everybody.
//
// Nobody is first among nodes: each decides by what it knows, and all that know the same decide the
// same. A node that is awaited in vain costs the others one deadline.
//
//   joining    until it has ranks and knows whether others train already
//   training   its ranks are in the graph
//   ending     all ranks of the run have done their share: the ones here drain
//   trading    the mean of the ranks here has gone to all, theirs are awaited
//   left       the membership knows that it goes; the links stay until all have theirs
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/conversations/membership.hpp"
#include "actors/gateway_mail.hpp"
#include "actors/node_status.hpp"
#include "actors/run_clock.hpp"
#include "actors/settings.hpp"
#include "actors/transport/link_transport.hpp"

namespace grapevine {

struct GatewayWiring {
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
  size_t size = 0;  // of the parameters
  DType dtype = DType::f32;
  std::function<Result<Plan>(const std::string& text)> read_plan;
  struct Ending {
    std::optional<Error> failure;
    std::shared_ptr<const Buffer> mean;  // of all ranks; null: no ranks were left
    int ranks = 0;                       // whose parameters are in it
    int nodes = 0;
  };
  std::function<void(Ending)> done;  // called once
};

class Gateway final : public GatewayActor::base {
 public:
  Gateway(caf::actor_config& config, GatewayWiring wiring);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  enum class Phase { joining, training, ending, trading, left };
  struct Share {
    Payload mean;
    int ranks = 0;
  };

  using Mean = std::pair<std::shared_ptr<const Buffer>, int>;  // and of how many ranks

  template <class Event>
  void handle(Event&& event);  // event(membership, effects), then what follows from it
  void carry_out(MembershipEffects&);
  void arm(double at);
  void new_roster();
  void consider();
  bool all_finished() const;
  void trade();
  static Mean together(const Buffer& own, int ranks, const std::vector<Share>& others);
  void conclude();
  void fail(Error);
  void say(const std::string& line);
  void answer(const Asked&);
  void answer_status(uint64_t console);
  void inject(uint64_t console, const std::string& plan);
  void snapshot(uint64_t console);
  void snapshot_done();
  void give_mean(const std::string& to, uint64_t transfer);
  template <class Then>
  void mean_here(Then then);  // of the ranks here, now: then(mean, ranks)
  void send_mean(const Member& to, uint64_t transfer, const Buffer& mean, int ranks);
  void reply(uint64_t console, bool ok, std::string text);

  GatewayWiring wiring_;
  GatewayStart parts_;
  std::optional<Membership> membership_;
  Phase phase_ = Phase::joining;
  bool met_ = false;  // somebody
  bool share_done_ = false;
  double deadline_s_ = kNever;  // of the phase
  double armed_s_ = kNever, wanted_s_ = kNever;
  uint64_t roster_epoch_ = 0;
  EpochInfo epoch_;
  RunEnded own_;
  std::map<std::string, Share> shares_;  // of the others
  struct Snapshot {
    uint64_t console = 0;  // 0: none is being taken
    uint64_t transfer = 0;
    double deadline_s = 0;
    size_t awaited = 0;
    Mean own;
    std::vector<Share> shares;
  } snapshot_;
  std::deque<std::string> events_;
};

}  // namespace grapevine
