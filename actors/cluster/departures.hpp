// Departures: the nodes that a run has lost, as far as this node knows, and an estimate of how far
// each loss moves the mean of the others. The estimate comes from the distances that the state
// actors here have measured to its ranks. A state machine without I/O; numbers identify departures
// that are not complete yet.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/mail/mail_state.hpp"
#include "actors/settings/samples.hpp"
#include "messages/control.hpp"

namespace grapevine {

class Departures {
 public:
  /// `gone` has left or is dead, with its ranks, out of `of` ranks. Each of `states` state actors
  /// is asked what it has measured. REQUIRES: states > 0.
  uint64_t open(const Member& gone, int of, double now, size_t states);
  /// A state actor has answered or cannot. Returns the departure once all have.
  std::optional<Departure> told(uint64_t number, const StateReport&);

  /// Stores it among the last hundred. Returns the line to report.
  std::string record(Departure);
  const std::vector<Departure>& kept() const { return kept_; }

 private:
  struct Open {
    Departure departure;
    Member gone;
    size_t awaited = 0;
    double squares = 0;  // of the distances on edges to its ranks
    int edges = 0;
  };

  std::map<uint64_t, Open> open_;
  uint64_t opened_ = 0;
  std::vector<Departure> kept_;
};

}  // namespace grapevine
