// Judge: who touched which byte last, and whether anything orders two touches.
//
// Everybody who touches memory in a test (the host of each process, each stream) has a vector
// clock, and every byte remembers its last write and each one's last read. Two touches of a byte,
// one of them a write, that no event and no message orders are a race, in whatever order they
// happened to come: clocks follow what the program demanded, not what took place. (The idea:
// Flanagan, Freund, "FastTrack", PLDI 2009.)
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/device/device.hpp"

namespace grapevine::testing {

/// file:line of who called.
std::string at(const Where&);

class Judge {
 public:
  using Clock = std::vector<uint32_t>;  // by who: how many of its steps are known

  int add(std::string name);
  const Clock& clock(int who) const { return clocks_[static_cast<size_t>(who)]; }
  void learn(int who, const Clock& news);
  void tick(int who);  // a step of its own
  static void merge(Clock& mine, const Clock& news);

  void touch(int who, const void* from, size_t bytes, bool writes, const char* what, Where);
  /// Fresh memory, which `who` has written.
  void begin(int who, const void* from, size_t bytes, Where);
  /// `who` gives memory up: whatever those of `own` did there must be over as far as it knows.
  void close(int who, const void* from, size_t bytes, const std::set<int>& own, Where);

  void find(const std::string& finding) { findings_.insert(finding); }
  const std::set<std::string>& findings() const { return findings_; }
  /// Whether one of them has these words.
  bool found(const std::string& words) const;

 private:
  struct Stamp {
    int who = -1;
    uint32_t step = 0;
    const char* what = "";
    Where where;
  };
  struct Cell {
    Stamp write;
    std::map<int, Stamp> reads;  // the last of each
    uintptr_t end = 0;
  };

  Stamp stamp(int who, const char* what, Where) const;
  void cut(uintptr_t at);
  void check(int who, const Stamp& before, const char* what, Where);

  std::vector<std::string> names_;
  std::vector<Clock> clocks_;
  std::map<uintptr_t, Cell> shadow_;  // by first byte; a cell's bytes have one history
  std::set<std::string> findings_;
};

}  // namespace grapevine::testing
