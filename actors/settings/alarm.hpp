// Alarm: a problem that a run does not solve by itself, or that its user should look at. It is
// reported once, in one line: what, where, when, the likely reason, and what to do. When the cause
// is gone, that is reported once too. A value.
#pragma once
#include <array>
#include <string>

namespace grapevine {

/// Prefixes of the event lines of an alarm and of its end.
constexpr char kAlarm[] = "ALARM: ", kAlarmOver[] = "alarm over: ";

struct Alarm {
  enum class What {
    divergence,     // the ranks drift apart, or a loss is not a number: the run is lost
    far_edge,       // two ranks are so far apart that exchanges no longer move them
    silent_edge,    // no exchange between two neighbours for a long time
    stale_edge,     // exchanges between two neighbours have become rare
    idle_rank,      // a rank waits more than it computes
    conserved_sum,  // a conserved sum has changed; tested on the virtual clock only
    checkpoint,     // a checkpoint cannot be written
    liar,           // a node makes impossible claims about others or itself
    lost_node,      // a node does not answer: it is dead, stopped or cut off
  };
  What what = What::divergence;
  bool over = false;         // the cause is gone
  int rank = -1, peer = -1;  // -1: all
  std::string node;          // the liar or the lost node
  double at_s = 0;
  std::string is, reason, advice;  // the last two are empty if `over`

  std::string line() const;
  /// The same problem at the same place, at any time.
  bool same_place(const Alarm& a) const {
    return what == a.what && rank == a.rank && peer == a.peer && node == a.node;
  }
};

inline constexpr std::array kAlarms = {
    Alarm::What::divergence, Alarm::What::far_edge,  Alarm::What::silent_edge,
    Alarm::What::stale_edge, Alarm::What::idle_rank, Alarm::What::conserved_sum,
    Alarm::What::checkpoint, Alarm::What::liar,      Alarm::What::lost_node};
const char* name_of(Alarm::What);

/// The likeliest reason why ranks under these settings drift apart, and what to do.
struct Settings;
Alarm divergence_under(const Settings&);

}  // namespace grapevine
