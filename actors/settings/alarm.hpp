// Alarm: a problem that a run does not solve by itself, or that its user should look at. It is
// reported once, in one line: what, where, when, the likely reason, and what to do. When the cause
// of an alarm is gone, that is reported once too. A value.
#pragma once
#include <array>
#include <string>

namespace grapevine {

/// Prefixes of the events of an alarm and of its end, for readers of events.
constexpr char kAlarm[] = "ALARM: ", kAlarmOver[] = "alarm over: ";

struct Alarm {
  enum class What {
    divergence,     // the ranks drift apart, or a loss is no number: nothing good comes any more
    far_edge,       // two ranks are so far apart that their exchanges move them no more
    silent_edge,    // no exchange between two neighbours for long
    stale_edge,     // exchanges between two neighbours have become rare
    idle_rank,      // a rank that waits more than it computes
    conserved_sum,  // what a method never changes has changed; seen on the virtual clock alone
    checkpoint,     // what the run would go on from cannot be written
    liar,           // a node says of others, or of itself, what cannot be so
    lost_node,      // a node answers no more: it has died, stands still, or is cut off
  };
  What what = What::divergence;
  bool over = false;         // what was told before is so no longer
  int rank = -1, peer = -1;  // -1: all of them
  std::string node;          // of a liar, or lost
  double at_s = 0;
  std::string is, reason, advice;  // the last two are empty where it is over

  std::string line() const;
  /// The same trouble at the same place, at whatever time.
  bool same_place(const Alarm& a) const {
    return what == a.what && rank == a.rank && peer == a.peer && node == a.node;
  }
};

inline constexpr std::array kAlarms = {
    Alarm::What::divergence, Alarm::What::far_edge,  Alarm::What::silent_edge,
    Alarm::What::stale_edge, Alarm::What::idle_rank, Alarm::What::conserved_sum,
    Alarm::What::checkpoint, Alarm::What::liar,      Alarm::What::lost_node};
const char* name_of(Alarm::What);

/// The likeliest reason why ranks that agreed drift apart under these settings, and what to do.
struct Settings;
Alarm divergence_under(const Settings&);

}  // namespace grapevine
