// Alarm: something that a run will not recover from by itself, or that its user should look at;
// told once, in one line: what, where, when, why in all likelihood, and what to do. A value.
#pragma once
#include <string>

namespace grapevine {

/// Begins the event of an alarm, so that whoever reads events alone can tell.
constexpr char kAlarm[] = "ALARM: ";

struct Alarm {
  enum class What {
    divergence,  // the ranks drift apart, or a loss is no number: nothing good comes any more
    left_out,    // what a rank sends is so far off that another leaves it out
  };
  What what = What::divergence;
  int rank = -1, peer = -1;  // -1: all of them
  double at_s = 0;
  std::string is, reason, advice;

  std::string line() const;
};

/// Why ranks that agreed drift apart under such settings, and what to do: the likeliest of it.
struct Settings;
Alarm divergence_under(const Settings&);

}  // namespace grapevine
