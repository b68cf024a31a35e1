#include "app/launch/guest_scripts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "actors/guests/guest_server.hpp"
#include "actors/mail/promised.hpp"
#include "app/commands/commands.hpp"
#include "app/launch/guard.hpp"
#include "app/launch/script_output.hpp"
#include "app/output/log.hpp"
#include "app/run/interrupts.hpp"
#include "app/system/child_process.hpp"
#include "kernels/base/caught.hpp"
#include "kernels/base/cores.hpp"

namespace grapevine {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr int kScriptPoll_ms = 50;
constexpr int kSignalled = 128;  // plus the signal: the status of what a signal has ended
// For scripts that continue after an interrupt, since the interrupt: the first signal, when scripts
// that check `rank.stopped` have long ended; TERM; and the end. Between two of them a script can
// save its model.
constexpr Steady::duration kFirstSignal = 5s, kTerm = 65s, kEnd = 125s;
constexpr auto kTellWaiting = 10s;

/// The variables that a script gets in addition to the environment.
std::vector<std::string> environment(const std::string& socket, int seat, int scripts) {
  std::vector<std::string> words = {"GRAPEVINE_NODE=" + socket,
                                    "GRAPEVINE_SEAT=" + std::to_string(seat)};
  const auto unless_set = [&](const char* name, int value) {
    if (std::getenv(name) == nullptr) words.push_back(fmt::format("{}={}", name, value));
  };
  unless_set("OMP_NUM_THREADS", std::max(1, usable_cores() / scripts));
  unless_set("PYTHONUNBUFFERED", 1);
  return words;
}

// Belongs to one thread: the scripts end with that thread, however it ends.
class Scripts {
 public:
  explicit Scripts(const Options& options)
      : command_(options.script),
        restarts_(options.restarts),
        log_(options.log),
        scripts_(static_cast<size_t>(options.guests)),
        out_(options.json ? stderr : stdout, scripts_.size(),
             options.json ? options.log.format : LogFormat::text, log_),
        err_(stderr, scripts_.size(), options.log.format, log_) {}

  ~Scripts() {
    each_running([](Script& script) { script.child->signal(end_all_signal()); });
    while (!ended())
      take_in();
  }

  Status start(const std::shared_ptr<GuestServer>& server) {
    server_ = server;
    for (size_t k = 0; k < scripts_.size(); ++k)
      if (Status started = start(k); !started) return started;
    return Done{};
  }

  /// Reads their output, and notices their ends.
  void watch() {
    take_in();
    for (size_t k = 0; k < scripts_.size(); ++k) {
      Script& script = scripts_[k];
      if (!script.child || !script.child->ended() || script.told) continue;
      script.told = true;
      judge(k);
    }
    if (interrupts() > 0) interrupt();
  }

  bool ended() const {
    return std::ranges::all_of(
        scripts_, [](const Script& script) { return !script.child || script.child->ended(); });
  }
  /// The error of a script, in one line; empty: none has failed.
  const std::string& complaint() const { return complaint_; }
  bool failed() const { return failed_; }  // a script has a status other than 0

  /// The run is over; scripts may continue without it.
  void run_is_over() { over_since_ = Steady::now(); }

 private:
  struct Script {
    std::unique_ptr<ChildProcess> child;
    int starts = 0;
    bool told = false;  // its end was reported
  };

  Status start(size_t k) {
    std::vector<std::string> words = {"/proc/self/exe", kGuard, "/usr/bin/env"};
    for (std::string& word :
         environment(server_->path(), static_cast<int>(k), static_cast<int>(scripts_.size())))
      words.push_back(std::move(word));
    words.insert(words.end(), command_.begin(), command_.end());
    auto child = ChildProcess::start(words, ChildProcess::Input::none);
    if (!child) return child.error();
    scripts_[k] = {std::move(*child), scripts_[k].starts + 1, false};
    return Done{};
  }

  template <class Do>
  void each_running(const Do& what) {
    for (Script& script : scripts_)
      if (script.child && !script.child->ended()) what(script);
  }

  void take_in() {
    std::vector<ChildProcess*> running;
    each_running([&](Script& script) { running.push_back(script.child.get()); });
    ChildProcess::wait_any(running, kScriptPoll_ms);
    const auto now = Steady::now();
    for (size_t k = 0; k < scripts_.size(); ++k) {
      Script& script = scripts_[k];
      if (!script.child || script.told) continue;
      const int rank = rank_of(k);
      out_.put(k, rank, script.child->take_out(), now);
      err_.put(k, rank, script.child->take_err(), now);
      out_.flush(k, rank, script.child->ended(), now);
      err_.flush(k, rank, script.child->ended(), now);
    }
  }

  int rank_of(size_t k) const {
    const int rank = server_->status()[k].rank;
    return rank >= 0 ? rank : static_cast<int>(k);
  }
  std::string name(size_t k) const { return fmt::format("the script of rank {}", rank_of(k)); }

  /// The seats of a script that has ended: those that one of its processes had last, else its own.
  std::vector<int> seats_of(size_t k) const {
    const std::vector<GuestStatus> seats = server_->status();
    std::vector<int> its;
    for (size_t seat = 0; seat < seats.size(); ++seat)
      if (seats[seat].group == scripts_[k].child->group()) its.push_back(static_cast<int>(seat));
    if (its.empty() && seats[k].process == 0) its.push_back(static_cast<int>(k));
    return its;
  }

  void judge(size_t k) {
    const int status = scripts_[k].child->status();
    const std::vector<int> seats = seats_of(k);
    const auto all = server_->status();
    const bool done = over_since_ || std::ranges::all_of(seats, [&](int seat) {
                        return all[static_cast<size_t>(seat)].done;
                      });
    std::string line = fmt::format("{} has ended with status {}", name(k), status);
    if (status > kSignalled && status < kSignalled + NSIG)
      line += fmt::format(" (signal {})", status - kSignalled);
    failed_ = failed_ || status != 0;
    if (interrupts() > 0 || (done && status == 0)) return log_.info(line);
    if (!done && scripts_[k].starts <= restarts_) {
      line += fmt::format(": it is started again, {} of {}", scripts_[k].starts, restarts_);
      log_.warn(line);
      for (const int seat : seats)
        server_->await_script(seat);
      if (Status again = start(k); again) return;
      line = name(k) + " cannot be started again";
    }
    if (!done) line += " before its work was done";
    if (!done && !ended()) line += ": the others take the remaining steps";
    log_.warn(line);
    if (complaint_.empty()) complaint_ = line;
    for (const int seat : seats)
      server_->give_up(seat);
  }

  /// Sends scripts that continue after an interrupt ever stronger signals.
  void interrupt() {
    const auto now = Steady::now();
    if (!interrupted_) interrupted_ = now;
    struct Step {
      Steady::duration after;
      int signal;
      const char* told;
    };
    const int first = terminated() ? SIGTERM : SIGINT;
    const Step steps[] = {{kFirstSignal, first, terminated() ? "terminated" : "interrupted"},
                          {kTerm, SIGTERM, "terminated"},
                          {kEnd, end_all_signal(), "killed"}};
    if (signals_ == std::size(steps) || now < *interrupted_ + steps[signals_].after) return;
    const auto& [after, signal, told] = steps[signals_++];
    for (size_t k = 0; k < scripts_.size(); ++k) {
      if (!scripts_[k].child || scripts_[k].child->ended()) continue;
      const std::string line = fmt::format("{} still runs, and is {}", name(k), told);
      log_.warn(line);
      if (signal != end_all_signal()) {
        scripts_[k].child->signal_group(signal);
        continue;
      }
      scripts_[k].child->signal(signal);
      if (complaint_.empty()) complaint_ = line;
    }
  }

  const std::vector<std::string> command_;
  const int restarts_;
  const Log log_;
  std::shared_ptr<GuestServer> server_;
  std::vector<Script> scripts_;
  ScriptOutput out_, err_;
  std::string complaint_;
  bool failed_ = false;
  std::optional<Steady::time_point> interrupted_, over_since_;
  size_t signals_ = 0;  // signals sent so far
};

}  // namespace

Result<int> launch_guests(Options options) {
  Scripts scripts(options);
  Promised<std::shared_ptr<GuestServer>> opened;
  Promised<Result<int>> end;
  std::thread runs([&] {
    end.keep(caught([&] {
      return node_with_guests(
          options, [&](const std::shared_ptr<GuestServer>& server) { opened.keep(server); });
    }));
  });
  std::optional<Result<int>> ended;
  std::optional<std::shared_ptr<GuestServer>> server;
  while (!server && !ended) {
    server = opened.wait(50ms);
    ended = end.wait(0ms);
  }
  std::optional<Error> failed;
  if (server)
    if (Status started = scripts.start(*server); !started) failed = started.error();
  bool nobody_came = false;  // all scripts have ended before the run began
  while (!ended) {
    scripts.watch();
    const bool nobody = scripts.ended() && (*server)->await_objective(0ms) == nullptr;
    if ((nobody || failed) && interrupts() == 0) nobody_came = std::raise(SIGTERM) == 0;
    ended = end.wait(scripts.ended() ? 50ms : 0ms);
  }
  runs.join();
  if (server) (*server)->close();  // if the node failed early
  scripts.run_is_over();
  const auto over = Steady::now();
  for (bool told = false; server && !scripts.ended();) {
    scripts.watch();
    if (!told && Steady::now() > over + kTellWaiting && (told = true))
      Log(options.log).info("the run is over; waiting for its scripts to end");
  }
  if (failed) return *failed;
  if (!*ended) return ended->error();
  if (nobody_came && **ended == kInterrupted)
    return world_error(
        scripts.failed() && !scripts.complaint().empty()
            ? scripts.complaint()
            : "every script has ended and none has joined: does it call grapevine.join?");
  if (**ended == 0 && !scripts.complaint().empty()) return world_error(scripts.complaint());
  return **ended;
}

}  // namespace grapevine
