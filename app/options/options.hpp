// Options: what a user may set, as one table. The command line, --config FILE, --help and run.json
// all read it.
//
// A row is {name, field, commands, value, help}. The option is --name, the key of a configuration
// file is name (with _ or -), and `field` points into the Options that the table was made for.
// Texts become values in one place, so a wrong value is refused by the same line wherever it came
// from.
#pragma once
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "actors/settings/settings.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

enum Command : unsigned {
  kTrain = 1,
  kSimulate = 2,
  kTopology = 4,
  kData = 8,
  kCompare = 16,
  kReproduce = 32,
  kNode = 64,
  kLaunch = 128,
  kCtl = 256,
  kKeygen = 512,
  kDoctor = 1024,
  kMethods = 2048,
  kCost = 4096,
};
constexpr unsigned kRuns = kTrain | kSimulate;
constexpr unsigned kProcesses = kNode | kLaunch;  // take whatever train takes

/// Of one process among several. Empty addresses: those of the environment, else a unix socket, or
/// with a key a free port of this machine.
struct PeerOptions {
  std::string listen, join;  // host:port or unix:/path; join: several, with commas
  std::string advertise;     // the address that others are told; empty: where it listens
  std::string name;          // empty: of host and process
  std::string run = "grapevine";
  std::string key;      // a file
  std::string own_key;  // a file in the run directory, made where there is none; empty: none
  bool no_key = false;  // TCP on loopback without one
  bool ends_with_input = false;
  // All nodes were started on this host at the same time. Each listens at a unix socket of its
  // name, also with a run key, and waits for the node that `join` names.
  bool meets_here = false;
  int first_rank = -1, total_ranks = 0;
  double patience_s = 15;
  std::string metrics;  // [host:]port of loopback; empty: not served
  bool bulk_encryption = true;
};

enum class LogLevel { info, warning, none };
enum class LogFormat { text, json };

/// The messages on standard error during a run. quiet: only alarms and warnings.
struct LogOptions {
  bool quiet = false;
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
};

struct Options {
  Settings settings;
  std::string config, plan, out, svg;
  uint64_t epochs = 0;       // passes over the data, in place of settings.gradients; 0: those count
  bool tensorboard = false;  // event files in the run directory
  bool save = true;          // train, node, launch: a run directory, where `out` names none
  std::string checkpoint_every;  // 60s, 1000steps, 0; empty: five minutes where a run is saved
  std::string resume, init;      // a run's folder or a checkpoint; a model
  std::string job;               // compare: the job file
  std::string name;              // reproduce: which; all: what needs no data
  bool list = false;             // reproduce: name them
  uint64_t steps = 0;       // reproduce: rounds of a run at most; 0: as many as the figures ask for
  std::string test_every;   // as checkpoint_every; empty: at the end only
  std::string sample;       // the start of a text that the averaged model continues; empty: none
  uint64_t early_stop = 0;  // tests without a better one, after which the run ends; 0: never
  bool json = false;
  LogOptions log;
  uint64_t seeds = 1;  // so many runs, from settings.seed on; reproduce, 0: its own number
  PeerOptions peers;
  int nodes = 4;     // launch
  int guests = 0;    // node, launch: ranks whose steps scripts compute, all of them here
  int restarts = 0;  // launch: of a script that ends before its share is done
  std::string door;  // the path of the socket that scripts connect to
  std::vector<std::string> script;  // launch: the command of each
  std::string hosts;
  std::string address, verb, argument;  // ctl; keygen: the argument is the file
  std::vector<std::string> warnings;    // what the user should look at, a line each
};

/// One of a few names, kept as their index by whoever made it.
struct Choice {
  std::vector<std::string> names;
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};

using Field = std::variant<std::string*, double*, int*, uint64_t*, bool*, Choice>;

/// How nodes of one run come by a value.
enum class Shared {
  no,             // each has its own
  by_default,     // who joins takes the run's, where it is not told another
  always,         // all have the same
  unless_guests,  // all have the same, but for nodes whose scripts have an objective of their own
};

struct Option {
  const char* name;
  Field field;
  unsigned commands;  // whose command lines take it; a configuration file may hold any of them
  const char* value;  // what stands for the value in --help; empty: a flag
  std::string help;
  Shared shared = Shared::no;
};

using OptionTable = std::vector<Option>;

/// Every row, pointing into `options`, which must outlive the table.
OptionTable option_table(Options& options);

/// The defaults of a command that trains `objective`: the main job for networks; no momentum, no
/// decay, a constant rate and no end for analytic objectives; for simulate, Poisson pacing and
/// pairing.
Options default_options(Command, const std::string& objective);
std::string default_objective(Command);

/// Sets a row from a text. Error (user): the name, the text, what is accepted.
Status set_option(const Option&, const std::string& text);

/// The present value of a row, as set_option would take it.
std::string option_text(const Option&);

/// Whether it says what a script does by itself, where scripts compute the steps.
bool is_scripts_own(const Option&);

/// The row of that name, - and _ being one; null: none.
const Option* find_option(const OptionTable&, const std::string& name);

/// " (did you mean --lr, --rate, --ranks?)": the three names most like `word`, behind `before`; one
/// that has the other in it is near.
std::string three_nearest(const std::string& word, const std::vector<std::string>& names,
                          const char* before = "");
/// The same of those that a slip of the finger makes of each other; empty where none is.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

/// Completes the options: sets an end if there is none, and calls `check` on the settings.
Status complete(Command, Options&);

}  // namespace grapevine
