// Options: all settings of a user, as one table. The command line, --config FILE, --help and
// run.json read it.
//
// A row is {name, field, commands, value, help}. The option is --name, the key of a configuration
// file is name (with _ or -), and `field` points into the Options of the table. One function
// converts texts to values, so a wrong value from any source is refused with the same line.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "actors/settings/settings.hpp"
#include "app/system/open_line.hpp"
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
constexpr unsigned kProcesses = kNode | kLaunch;  // accept all options of train

/// For one process of several. Empty addresses: from the environment, else a unix socket, or with a
/// key a free port of this machine.
struct PeerOptions {
  std::string listen, join;  // host:port or unix:/path; join: several, separated by commas
  std::string join_is;       // who is there, in words, if the environment tells `join`
  std::string advertise;     // the address that others are told; empty: the listening one
  std::string name;          // empty: from host and process
  std::string run = "grapevine";
  std::string key;      // a file
  std::string own_key;  // a file in the run directory, made if missing; empty: none
  bool no_key = false;  // TCP on loopback without a key
  bool ends_with_input = false;
  // All nodes were started on this host at the same time. Each listens at a unix socket with its
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
  std::shared_ptr<OpenLine> line = std::make_shared<OpenLine>();  // of standard error
};

struct Options {
  Settings settings;
  std::string config, plan, out, svg;
  uint64_t epochs = 0;           // passes over the data instead of settings.gradients; 0: off
  bool tensorboard = false;      // event files in the run directory
  bool save = true;              // train, node, launch: make a run directory if `out` is empty
  std::string checkpoint_every;  // 60s, 1000steps, 0; empty: five minutes, if the run is saved
  std::string resume, init;      // a run's folder or a checkpoint; a model
  std::string job;               // compare: the job file
  std::string name;              // reproduce: the family; all: those without data
  bool list = false;             // reproduce: list the families
  uint64_t steps = 0;            // reproduce: rounds of a run at most; 0: those of the figures
  std::string test_every;        // as checkpoint_every; empty: only at the end
  std::string sample;       // the start of a text that the averaged model continues; empty: none
  uint64_t early_stop = 0;  // the run ends after so many tests without a better one; 0: never
  bool json = false;
  LogOptions log;
  uint64_t seeds = 1;  // number of runs, from settings.seed on; reproduce, 0: its own
  PeerOptions peers;
  int nodes = 4;                    // launch
  int guests = 0;                   // node, launch: ranks whose steps scripts compute; all are here
  int restarts = 0;                 // launch: of a script that ends before its last step
  std::string door;                 // the path of the socket that scripts connect to
  std::vector<std::string> script;  // launch: the command of the scripts
  std::string hosts;
  std::string address, verb, argument;  // ctl; keygen: the argument is the file
  std::vector<std::string> warnings;    // messages for the user, a line each
};

/// One of a few names, stored as its index.
struct Choice {
  std::vector<std::string> names;
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};

using Field = std::variant<std::string*, double*, int*, uint64_t*, bool*, Choice>;

/// How the nodes of a run agree on a value.
enum class Shared {
  no,             // each has its own
  by_default,     // a node that joins takes the run's value, unless it has its own
  always,         // all have the same
  unless_guests,  // as always; but nodes with scripts have their own
};

struct Option {
  const char* name;
  Field field;
  unsigned commands;  // the commands that accept it; a configuration file may have any
  const char* value;  // the placeholder of the value in --help; empty: a flag
  std::string help;
  Shared shared = Shared::no;
};

using OptionTable = std::vector<Option>;

/// All rows. They point into `options`, which must outlive the table.
OptionTable option_table(Options& options);

/// The defaults of a command that trains `objective`. For networks: the main job. For analytic
/// objectives: no momentum, no decay, a constant rate and no end. For simulate: Poisson pacing and
/// pairing.
Options default_options(Command, const std::string& objective);
std::string default_objective(Command);

/// Sets a row from a text. Error (user): the name, the text, the accepted values.
Status set_option(const Option&, const std::string& text);

/// The present value of a row, in the form of set_option.
std::string option_text(const Option&);

/// Whether the option is a script's own choice, if scripts compute the steps.
bool is_scripts_own(const Option&);

/// The row of that name, in which - and _ are equal; null: none.
const Option* find_option(const OptionTable&, const std::string& name);

/// " (did you mean --lr, --rate, --ranks?)": the three names nearest to `word`, each after
/// `before`. A name that contains the word, or is part of it, is near.
std::string three_nearest(const std::string& word, const std::vector<std::string>& names,
                          const char* before = "");
/// The same for the names that differ from it by a typing error; empty: none.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

/// Completes the options: sets an end of the run if there is none, and calls `check` on the
/// settings.
Status complete(Command, Options&);

}  // namespace grapevine
