#include "app/launch/guest_scripts.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <thread>

#include "actors/mail/promised.hpp"
#include "app/commands/commands.hpp"
#include "app/output/log.hpp"
#include "app/run/interrupts.hpp"
#include "app/system/child_process.hpp"

namespace grapevine {
namespace {

using namespace std::chrono_literals;

constexpr int kPoll_ms = 50;
constexpr auto kFarewell = 10s;  // for scripts to end once the run has

// Whole lines of a text that grows, told once.
class Lines {
 public:
  void pass_on(const std::string& text, bool ended,
               const std::function<void(const std::string&)>& put) {
    for (size_t end; (end = text.find('\n', told_)) != text.npos; told_ = end + 1)
      put(text.substr(told_, end - told_));
    if (!ended || told_ >= text.size()) return;
    put(text.substr(told_));
    told_ = text.size();
  }

 private:
  size_t told_ = 0;
};

// Belongs to one thread: the scripts end with it, however it ends.
class Scripts {
 public:
  explicit Scripts(const Options& options) : prints_(!options.json), log_(options.log) {}

  Status start(const std::vector<std::string>& command, int count, const std::string& door) {
    std::vector<std::string> words = {"/usr/bin/env", "GRAPEVINE_NODE=" + door};
    words.insert(words.end(), command.begin(), command.end());
    for (int k = 0; k < count; ++k) {
      auto child = ChildProcess::start(words);
      if (!child) return child.error();
      scripts_.push_back({std::move(*child), {}, {}, false});
    }
    return Done{};
  }

  void watch() {
    std::vector<ChildProcess*> running;
    for (const Script& script : scripts_)
      if (!script.child->ended()) running.push_back(script.child.get());
    ChildProcess::wait_any(running, kPoll_ms);
    for (size_t k = 0; k < scripts_.size(); ++k) {
      Script& script = scripts_[k];
      const bool ended = script.child->ended();
      const auto log = [&](const std::string& line) {
        log_.announce(fmt::format("[{}] {}", k, line));
      };
      const auto print = [&](const std::string& line) {
        std::printf("[%zu] %s\n", k, line.c_str());
        std::fflush(stdout);
      };
      script.out.pass_on(script.child->out(), ended,
                         prints_ ? std::function<void(const std::string&)>(print) : log);
      script.err.pass_on(script.child->err(), ended, log);
      if (!ended || script.told) continue;
      script.told = true;
      well_ = well_ && script.child->status() == 0;
      log_.announce(fmt::format("script {} has ended with status {}", k, script.child->status()));
    }
  }

  bool ended() const {
    for (const Script& script : scripts_)
      if (!script.told) return false;
    return true;
  }
  bool well() const { return well_; }

 private:
  struct Script {
    std::unique_ptr<ChildProcess> child;
    Lines out, err;
    bool told = false;  // its end
  };

  bool prints_;  // what scripts print; else it is logged, beside a JSON result
  Log log_;
  std::vector<Script> scripts_;
  bool well_ = true;
};

}  // namespace

Result<int> launch_guests(Options options) {
  Scripts scripts(options);
  Promised<std::string> door;
  Promised<Result<int>> end;
  std::thread runs(
      [&] { end.keep(node(options, [&door](const std::string& path) { door.keep(path); })); });
  std::optional<Result<int>> ended;
  std::optional<std::string> path;
  while (!path && !ended) {
    path = door.wait(50ms);
    ended = end.wait(0ms);
  }
  std::optional<Error> failed;
  bool nobody_left = false;  // scripts have ended, and the run has not
  if (path) {
    if (Status started = scripts.start(options.script, options.guests, *path); !started)
      failed = started.error();
  }
  while (!ended) {
    scripts.watch();
    if ((scripts.ended() || failed) && interrupts() == 0) {
      ended = end.wait(2000ms);  // the last of them may have said that all is done
      if (!ended) nobody_left = std::raise(SIGTERM) == 0;
    }
    if (!ended) ended = end.wait(0ms);
  }
  runs.join();
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  while (path && !scripts.ended() && std::chrono::steady_clock::now() < until)
    scripts.watch();
  if (failed) return *failed;
  if (!*ended) return ended->error();
  if (nobody_left && **ended == kInterrupted)
    return world_error("every script has ended and none has joined: does it call grapevine.join?");
  return **ended == 0 && !scripts.well() ? 1 : **ended;
}

}  // namespace grapevine
