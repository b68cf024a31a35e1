// Turns: while a device works for a rank, further requests to the rank wait, in order. If no rank
// is held, this costs one test of an empty map.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace grapevine {

class Turns {
 public:
  /// Whether `rank` is held, so that a request has to wait.
  bool is_held(int rank) const { return !held_.empty() && held_.contains(rank); }
  void wait(int rank, std::function<void()> work) {  // REQUIRES: is_held
    held_.at(rank).waiting.push_back(std::move(work));
  }

  /// Runs work that needs every rank to be between two turns: at once, or as soon as no rank is
  /// held.
  void when_free(std::function<void()> work) {
    if (held_.empty()) return work();
    waiting_for_all_.push_back(std::move(work));
  }

  void hold(int rank) { ++held_[rank].count; }
  /// Called once for each hold(). The last release() runs the requests that wait, until one of them
  /// holds the rank again. If one holds and releases the rank at once, the outer release()
  /// continues with the others.
  void release(int rank) {
    const auto found = held_.find(rank);
    if (found == held_.end() || --found->second.count > 0) return;
    Held& held = found->second;
    if (std::exchange(held.serves, true)) return;
    while (held.count == 0 && !held.waiting.empty()) {
      const auto work = std::move(held.waiting.front());
      held.waiting.pop_front();
      work();
    }
    held.serves = false;
    if (held.count == 0) held_.erase(found);
    if (!held_.empty()) return;
    for (const auto& work : std::exchange(waiting_for_all_, {}))
      work();
  }
  /// Ends all holds and runs all requests that wait.
  void let_go() {
    for (auto& [rank, held] : std::exchange(held_, {}))
      for (const auto& work : held.waiting)
        work();
    for (const auto& work : std::exchange(waiting_for_all_, {}))
      work();
  }

 private:
  struct Held {
    int count = 0;
    bool serves = false;
    std::deque<std::function<void()>> waiting;
  };
  std::map<int, Held> held_;
  std::vector<std::function<void()>> waiting_for_all_;
};

}  // namespace grapevine
