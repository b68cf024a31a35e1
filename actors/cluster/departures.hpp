// Departures: the nodes that a run has lost, as far as this node knows, and by how much each loss
// moves the mean of the others: an estimate from what the state actors here have seen of its ranks.
// A state machine without I/O; numbers identify departures that are not complete yet.
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
  /// `gone` has left or is dead, with its ranks, of so many. Each of `states` is asked what it has
  /// seen of them. REQUIRES: states > 0.
  uint64_t open(const Member& gone, int of, double now, size_t states);
  /// One of them has answered, or cannot. The departure, once all have.
  std::optional<Departure> told(uint64_t number, const StateReport&);

  /// Stores it with the last hundred. Returns the line to report.
  std::string record(Departure);
  const std::vector<Departure>& kept() const { return kept_; }

 private:
  struct Open {
    Departure departure;
    Member gone;
    size_t awaited = 0;
    double squares = 0;  // of distances on edges with its ranks
    int edges = 0;
  };

  std::map<uint64_t, Open> open_;
  uint64_t opened_ = 0;
  std::vector<Departure> kept_;
};

}  // namespace grapevine
