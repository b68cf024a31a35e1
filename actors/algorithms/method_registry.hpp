// The methods by name: the rule of each, its conversation, and its requirements of the graph.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "actors/algorithms/rule.hpp"
#include "kernels/base/result.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

struct OnePeer;  // topologies/schedule.hpp

enum class Pattern { pairwise, rounds, collective };

/// The policies for lost messages (Missing) that a method has, besides sending them again.
enum class Losses { none, own, any };

/// The ranks that a rank sends to and receives from in a phase, if a method does not use the graph.
struct RoundPartners {
  /// Places among all live ranks, at least two; the rank's own place means no partner. `place` is
  /// the rank's own. Pure.
  OnePeer (*of)(const RuleSettings&, int place, int ranks, uint64_t seed, uint64_t phase) = nullptr;
  /// The number of phases that another rank may be behind one that waits for its sender in each.
  int (*most_behind)(const RuleSettings&, int ranks) = nullptr;
  bool has_reference = false;  // takes settings.reference_schedule

  explicit operator bool() const { return of != nullptr; }
};

struct Method {
  const char* name;
  Pattern pattern;
  std::unique_ptr<Rule> (*make)(const RuleContext&);
  bool accelerated = false;       // uses eta and alpha~ of the graph
  bool waits = true;              // rounds: for every message; false: continues with the last ones
  RoundPartners partners = {};    // rounds: the partners; none: the neighbours in the graph
  bool sends_mass = false;        // rounds: the sum lacks what is under way
  bool relays = false;            // rounds: along the edges of one or two trees
  bool gossips = false;           // rounds: by the gossip matrix; takes gamma and weights
  double eigenvalues_above = -1;  // of the gossip matrix
  Losses losses = Losses::none;
  // For a user's method: its rules change vectors only by passes of the Execution that they get.
  bool on_devices = false;
  bool any_optimizer = true;  // false: SGD, with a momentum of its own
  // Null: it takes none.
  Status (*check_compress)(const Method&, const std::string& spec) = nullptr;
  int (*phases)(const RuleSettings&) = [](const RuleSettings&) { return 1; };  // per round
  const char *sentence = "", *paper = "", *equation = "";                      // for people
  const char* with_inner_steps = "";  // its name in the literature with inner steps

  /// Ranks exchange with their neighbours in the graph; else with all, or by their own schedule.
  bool goes_by_graph() const { return pattern != Pattern::collective && !partners; }
};

/// Adds a user's method to those that settings may name. Its texts are literals, which are not
/// copied. Many threads may call `make`. Errors (user): the name is taken or invalid; no `make` or
/// `phases`.
Status register_method(const Method&);

/// By name.
std::vector<Method> all_methods();
/// The row of a name, or null.
const Method* find_method(const std::string& name);
/// Whether its ranks may be on a GPU. All built-in methods may.
bool runs_on_devices(const Method&);
/// REQUIRES: the name is known.
const Method& method_named(const std::string& name);
std::string method_names();

/// The error of the settings or the graph for this method, in one line.
Status check_method(const std::string& name, const RuleSettings&, const std::string& weights,
                    const Topology&);

}  // namespace grapevine
