// The methods by name: which rule a name stands for, which conversation it needs, and what it asks
// of the graph.
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

/// Which policies of lost messages (Missing) a method has, besides sending them again.
enum class Losses { none, own, any };

/// The ranks that a rank sends to and hears in a phase of its rounds, if a method does not use the
/// graph.
struct RoundPartners {
  /// Places among all live ranks; the rank's own place means no partner. Pure. `place` is that of
  /// the rank, of at least two.
  OnePeer (*of)(const RuleSettings&, int place, int ranks, uint64_t seed, uint64_t phase) = nullptr;
  /// How many phases another rank may be behind one that waits for its sender in each.
  int (*most_behind)(const RuleSettings&, int ranks) = nullptr;
  bool has_reference = false;  // takes settings.reference_schedule

  explicit operator bool() const { return of != nullptr; }
};

struct Method {
  const char* name;
  Pattern pattern;
  std::unique_ptr<Rule> (*make)(const RuleContext&);
  bool accelerated = false;       // uses eta and alpha~ of the graph
  bool waits = true;              // rounds: for every message; false: goes on with the last
  RoundPartners partners = {};    // rounds: with these; none: with the neighbours in the graph
  bool sends_mass = false;        // rounds: what is under way is missing in the sum
  bool relays = false;            // rounds: along the edges of one or two trees
  bool gossips = false;           // rounds: by the gossip matrix; takes gamma and weights
  double eigenvalues_above = -1;  // of the gossip matrix
  Losses losses = Losses::none;
  // One of the caller's own: all that its rules do to vectors are passes of the Execution they get.
  bool on_devices = false;
  bool any_optimizer = true;  // false: SGD, with a momentum of its own
  Status (*check_compress)(const Method&, const std::string& spec) = nullptr;  // null: takes none
  int (*phases)(const RuleSettings&) = [](const RuleSettings&) { return 1; };  // of a round
  const char *sentence = "", *paper = "", *equation = "";                      // for people
  const char* with_inner_steps = "";  // what it is then in the literature

  /// Its ranks talk to their neighbours; else to everybody, or by a schedule of their own.
  bool goes_by_graph() const { return pattern != Pattern::collective && !partners; }
};

/// Adds a method of the caller's own to those that settings may name. Its texts are literals: they
/// are not copied. `make` may be called by many threads. Errors (user): a name that is taken or
/// cannot be one, no `make` or `phases`.
Status register_method(const Method&);

/// By name.
std::vector<Method> all_methods();
/// The row of a name, or null.
const Method* find_method(const std::string& name);
/// Whether its ranks may live on a GPU: those of the house may.
bool runs_on_devices(const Method&);
/// REQUIRES: the name is known.
const Method& method_named(const std::string& name);
std::string method_names();

/// The error of the settings or the graph for this method, in one line.
Status check_method(const std::string& name, const RuleSettings&, const std::string& weights,
                    const Topology&);

}  // namespace grapevine
