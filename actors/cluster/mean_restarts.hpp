// MeanRestarts: which changes of the members give a mean new time, as a state machine without I/O.
//
// A mean begins again when what a member says of itself changes, and then waits again. So each
// member has kMeanRestarts of these changes per mean. Members that came since the mean was opened
// have as many together, because one process can come under many names. An honest member needs
// fewer: its record has room for 16 nodes that it cannot reach, and it takes back earlier ones at
// once.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/cluster/mean_tree.hpp"

namespace grapevine {

constexpr int kMeanRestarts = 20;
constexpr double kOneRestart_s = 1;  // changes within this time count once

class MeanRestarts {
 public:
  void open(double now, const std::vector<MeanMember>&);

  struct Changes {
    bool give_time = false;             // one is of a member that has restarts left
    std::vector<std::string> restless;  // members that have just used all theirs
  };
  Changes view(double now, const std::vector<MeanMember>&);

 private:
  struct Count {
    int restarts = 0;
    double counted_at = 0;
    bool add(double now);  // whether the change gives time
  };
  struct Known {
    uint64_t word = 0;  // a hash of what it said last; 0: it is not there
    uint64_t view = 0;  // the last one that it was in
    bool is_new = false;
    Count count;
  };
  void change(double now, const std::string& node, Known&, uint64_t word, Changes&);

  std::map<std::string, Known> known_;
  Count of_new_;
  uint64_t views_ = 0;
};

}  // namespace grapevine
