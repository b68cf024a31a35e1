// ConsoleServer: the actor that answers consoles. One per process.
//
// It has its own mailbox, so a slow reader, a large model or a long status delays no other actor. A
// snapshot is sent at the speed of its reader: each request names the mean and an offset, and gets
// at most kAnswerBytes with their hash. So a reader that lost its connection continues at its
// offset. The last means are kept for half a minute after the last read.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/cluster/cluster_mail.hpp"
#include "actors/settings/settings.hpp"
#include "actors/transport/link_transport.hpp"

namespace grapevine {

struct ConsoleDependencies {
  RunClock clock;
  std::shared_ptr<LinkTransport> transport;
  // If a function is empty, the console is told so.
  std::function<std::string(const NodeStatus&)> render;
  std::function<std::string(const Mean&)> describe;  // a snapshot as JSON, with its number
  std::function<Result<Plan>(const std::string& text)> read_plan;
  std::function<void(const std::string&)> say;
};

class ConsoleServer final : public ConsoleActor::base {
 public:
  ConsoleServer(caf::actor_config& config, ConsoleDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Kept {
    MeanPtr mean;
    double used_s = 0;
  };

  void note(const std::string& what);  // adds the time of day
  void turned_away(const TurnedAway&);
  void bulk_ended(const BulkEnded&);
  void follow(uint64_t console);
  void answer(const Asked&);
  void answer_status(uint64_t console);
  void finish_status(uint64_t console, NodeStatus);
  void drain(uint64_t console);
  void reconfigure(uint64_t console, const std::string& topology);
  void inject(uint64_t console, const std::string& plan);
  void take_checkpoint(uint64_t console);
  void take_snapshot(uint64_t console);
  void give_snapshot(uint64_t console, uint64_t mean, uint64_t offset);
  void forget_means();
  void reply(uint64_t console, bool ok, std::string text);

  ConsoleDependencies deps_;
  ConsoleStart parts_;
  std::deque<std::string> events_;
  std::set<uint64_t> followers_;  // consoles that get each event
  std::map<std::string, uint64_t> turned_away_;
  EpochInfo epoch_;
  std::deque<Kept> kept_;
};

}  // namespace grapevine
