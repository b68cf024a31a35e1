#include "app/commands/command_line.hpp"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>

#include "app/checkpoint/resume.hpp"
#include "app/commands/commands.hpp"
#include "app/options/run_settings.hpp"
#include "topologies/topology.hpp"

namespace grapevine {
namespace {

const char kCompareFooter[] =
    "Example, job.toml:\n"
    "  objective = \"quadratic\"           # any option of simulate, for all runs\n"
    "  dim = 10\n"
    "  zeta2 = 1\n"
    "  lr = 0.1\n"
    "  until = 500\n"
    "  seeds = [1, 2, 3]                 # or seeds = 3\n"
    "  topology = [\"ring\", \"torus:4x4\"]  # any option may be a list\n"
    "  target_suboptimality = 1e-3       # or target_accuracy, target_test_loss\n"
    "  [[method]]\n"
    "  name = \"d_psgd\"\n"
    "  [[method]]\n"
    "  name = \"relaysgd\"\n"
    "  topology = \"chain\"                # this method's own\n"
    "  label = \"RelaySGD on a chain\"\n"
    "\n"
    "  grapevine compare job.toml        a table, job.results/ and its compare.svg\n"
    "  grapevine compare job.toml        again: runs only what is missing\n"
    "--threads sets how many runs are made at the same time.\n";

struct CommandRow {
  // The options that name this command. Commands with the same options share a value.
  Command command;
  const char* name;
  Result<int> (*run)(Options);
  const char* sentence;
  const char* footer;
};

const CommandRow kCommands[] = {
    {kTrain, "train", train, "Train on this machine under the wall clock.",
     "Examples:\n"
     "  grapevine train                                       16 ranks, a ring, a2cid2\n"
     "  grapevine train --method all_reduce --gradients 8000  synchronous SGD, shorter\n"
     "  grapevine train --model mlp --dataset optdigits --data DIR --json\n"
     "  grapevine train --plan slow.toml --out runs/slow      with a fault plan\n"
     "  grapevine train --resume runs/long                    continues where it was killed\n"
     "  grapevine train --test-every 30s --validation-split 0.1 --early-stop 5\n"
     "                              tests on a tenth of the samples, keeps the best model\n"
     "One Ctrl+C finishes open exchanges, tests and saves; a second one ends at once.\n"
     "SIGUSR1 takes a checkpoint. SIGUSR2 ends the run like SIGTERM.\n"
     "If the run in --out was killed, the same command resumes it.\n"},
    {kSimulate, "simulate", simulate,
     "Run the same actors on the virtual clock, seeded and repeatable.",
     "Examples:\n"
     "  grapevine simulate --ranks 64 --target 1e-3 --seeds 20   exchanges until ranks agree\n"
     "  grapevine simulate --objective quadratic --noise 1 --momentum 0.9 --until 2000\n"
     "  grapevine simulate --objective network --gradients 8000  real gradients in virtual time\n"
     "  grapevine simulate --latency 0.02 --jitter 0.5 --transfer 0.5 --pairing free --json\n"
     "Two runs with one seed have the same event log and the same parameters, to the bit.\n"},
    {kTopology, "topology", show_topology, "A graph: degrees, spectrum, chi1, chi2, eta, alpha~.",
     "Examples:\n"
     "  grapevine topology ring --ranks 64\n"
     "  grapevine topology torus:4x8 --ranks 32 --svg torus.svg\n"
     "  grapevine topology ./graph.txt --ranks 5 --json\n"},
    {kData, "data", show_data, "The samples of each label on each rank.",
     "Examples:\n"
     "  grapevine data --partition dirichlet:0.1 --ranks 16\n"
     "  grapevine data --dataset a9a --data DIR --partition label --json\n"},
    {kMethods, "methods", show_methods,
     "All training methods: equation, paper, and the graph and options of each.",
     "Example: grapevine methods --json\n"},
    {kCompare, "compare", compare,
     "Methods x options x seeds from one job file, on the virtual clock.", kCompareFooter},
    {kReproduce, "reproduce", reproduce, "Published figures beside measured ones, with a verdict.",
     "Examples:\n"
     "  grapevine reproduce --list          the names\n"
     "  grapevine reproduce quadratics      one of them\n"
     "  grapevine reproduce all --json      all that need no data set\n"
     "Exit status 1 if a claim does not hold.\n"},
    {kNode, "node", node,
     "Start one process of a run; --ranks is the number of ranks of this process.",
     "Examples, two terminals:\n"
     "  grapevine node --node-name a --ranks 8 --total-ranks 16\n"
     "  grapevine node --join a --ranks 8           takes the job's options from the run\n"
     "Two machines, both with the run key (grapevine keygen run.key):\n"
     "  grapevine node --listen 10.0.0.1:7001 --key run.key --ranks 8 --total-ranks 16\n"
     "  grapevine node --join 10.0.0.1:7001 --key run.key --ranks 8\n"
     "Ranks whose steps scripts compute (a PyTorch script joins with five lines):\n"
     "  grapevine node --guests 4\n"
     "Under srun, torchrun and mpirun a node finds the others by the environment.\n"
     "node has every option of train.\n"
     "One Ctrl+C saves and leaves; a second one ends at once.\n"},
    {kLaunch, "launch", launch, "Start and watch several processes that train together.",
     "Examples:\n"
     "  grapevine launch --nodes 4 --ranks 4                the main job in four processes\n"
     "  grapevine launch --nodes 4 --ranks 4 --plan p.toml  kill, pause and restart processes\n"
     "  grapevine launch --hosts hosts.txt --key run.key    over ssh\n"
     "  grapevine launch --guests 4 -- python train.py      a node, and four scripts that join it\n"
     "launch has every option of train.\n"
     "One Ctrl+C ends the run at all nodes; a second one ends at once.\n"},
    {kCtl, "ctl", control, "Send a request to a running node.",
     "Verbs:\n"
     "  status              members, graph, counts, edges\n"
     "  metrics             the same for Prometheus, as --metrics of node serves it\n"
     "  topology            the graph and its constants\n"
     "  reconfigure SPEC    another graph, for all nodes\n"
     "  drain               this node saves its ranks and leaves\n"
     "  stop                the run ends at all nodes\n"
     "  inject PLAN         faults of links and changes of the graph, from a file\n"
     "  checkpoint          this node saves its ranks\n"
     "  snapshot FILE       the averaged model as it is now (safetensors)\n"
     "  events [N|follow]   the last events, or each event as it happens\n"
     "ADDR is the name of a node of this user on this machine, host:port or unix:/path.\n"
     "Example: grapevine ctl a status --json\n"},
    {kCost, "cost", show_cost,
     "How the time of a finished run was spent, and how much of it was work.",
     "Examples:\n"
     "  grapevine cost runs/long            of a launch: the sum over its nodes\n"
     "  grapevine cost runs/long --json\n"},
    {kKeygen, "keygen", make_key, "Make a run key, the secret that all nodes of a run share.",
     "Example: grapevine keygen run.key; copy the file to every machine, and name it with --key\n"},
    {kDoctor, "doctor", doctor, "Check whether this machine can run a node; one line per check.",
     "Examples:\n"
     "  grapevine doctor --join 10.0.0.1:7001 --key run.key\n"
     "  grapevine doctor --json      also lists the GPUs\n"
     "  grapevine doctor --device cuda --model resnet18 --dataset cifar10 --ranks 64\n"
     "                               also the memory that these ranks need\n"
     "Exit status 1 if a check fails.\n"},
};

constexpr unsigned kDraining = kRuns | kProcesses | kCompare | kReproduce;  // they train ranks

using Given = std::vector<ConfigEntry>;

// Refuses options that have no effect if scripts compute the steps. `entries`: in the order of the
// command line.
Status refuse_with_guests(const Given& entries) {
  const auto named = [&](const std::string& name) {
    return std::ranges::find_if(entries, [&](const ConfigEntry& e) { return e.name == name; });
  };
  const auto guests = named("guests");
  if (guests == entries.end() || guests->text == "0") return Done{};
  Options scratch;
  for (const Option& option : option_table(scratch)) {
    const std::string name = option.name;
    const bool counts = name == "ranks" || name == "nodes" || name == "hosts";
    if (name == "objective" || !(counts || is_scripts_own(option))) continue;
    if (const auto given = named(name); given != entries.end())
      return user_error(fmt::format(
          "{}{} is {} with guests, accepted: none, because {}", given->where, name, given->text,
          counts ? "each guest is a rank of this node" : "the scripts set it"));
  }
  return Done{};
}

Result<Options> resolve(Command command, const Given& given,
                        const std::vector<std::string>& script) {
  std::vector<ConfigEntry> entries;
  const ConfigEntry* config = nullptr;
  for (const ConfigEntry& entry : given)
    if (entry.name == "config") config = &entry;
  if (config != nullptr) {
    Options scratch;
    auto read = read_config(config->text, option_table(scratch));
    if (!read) return read.error();
    entries = std::move(*read);
  }
  entries.insert(entries.end(), given.begin(), given.end());
  if (command & kProcesses)
    if (Status fits = refuse_with_guests(entries); !fits) return fits.error();
  auto recorded = with_record(command, entries);
  if (!recorded) return recorded.error();
  entries = std::move(*recorded);
  if (command == kNode) {
    auto all = with_settings_of_run(entries);
    if (!all) return all.error();
    entries = std::move(*all);
  }
  return resolve_options(command, entries, script);
}

Error unknown_option(const std::string& word, const CommandRow& row) {
  Options scratch;
  std::vector<std::string> names;
  std::string takers;
  const std::string name = word.substr(0, word.find('=')).erase(0, word.find_first_not_of('-'));
  for (const Option& option : option_table(scratch)) {
    if (option.commands & row.command) {
      names.push_back(option.name);
    } else if (name == option.name) {
      for (const CommandRow& other : kCommands)
        if (option.commands & other.command) takers += std::string(" ") + other.name;
    }
  }
  if (word.empty() || word[0] != '-') {
    const char* behind = row.command == kLaunch ? ", scripts behind --" : "";
    return user_error(fmt::format(
        "unexpected argument \"{}\" of {}, accepted: options{}, see grapevine {} --help", word,
        row.name, behind, row.name));
  }
  const std::string hint = takers.empty() ? three_nearest(name, names, "--")
                                          : fmt::format(" (it belongs to:{})", takers);
  return user_error(
      fmt::format("unknown option {} of {}{}, accepted: those that grapevine {} --help "
                  "lists",
                  word.substr(0, word.find('=')), row.name, hint, row.name));
}

// The positional arguments of a command.
struct Positional {
  Command command;
  const char *option, *shown, *help;
};

constexpr Positional kPositionals[] = {
    {kTopology, "topology", "SPEC", "the graph, as --topology"},
    {kCompare, "job", "JOB", "the job file, as --job"},
    {kReproduce, "name", "NAME", "the family of claims, as --name"},
    {kCtl, "address", "ADDR", "where a node listens"},
    {kCtl, "verb", "VERB",
     "status, metrics, topology, reconfigure, drain, stop, inject, checkpoint, snapshot, events"},
    {kCtl, "argument", "ARG", "the argument of reconfigure, inject, snapshot or events"},
    {kKeygen, "argument", "FILE", "the file to write"},
    {kCost, "argument", "RUN", "the folder of a run"},
};

// CLI11 would print a flag's other spelling as --no-save{false}.
struct PlainFlags : CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = Formatter::make_option_name(option, is_positional);
    if (const size_t at = name.find("{false}"); at != std::string::npos) name.resize(at);
    return name;
  }
};

// One subcommand. The texts of its options go into `given`.
CLI::App* add_command(CLI::App& app, const CommandRow& row, Given& given) {
  CLI::App* sub = app.add_subcommand(row.name, row.sentence);
  sub->allow_extras();
  sub->footer(row.command == kTopology
                  ? fmt::format("Graphs:\n{}\n{}", topology_specs(), row.footer)
                  : std::string(row.footer));
  Options defaults = default_options(row.command, default_objective(row.command));
  for (const Option& option : option_table(defaults)) {
    if ((option.commands & row.command) == 0) continue;
    const std::string name = option.name, flag = "--" + name;
    const std::string text = option_text(option);
    if (*option.value == '\0') {
      auto set = [&given, name](int64_t count) {
        given.push_back({name, count > 0 ? "true" : "false", ""});
      };
      const bool on = text == "true";
      const bool is_no = name.rfind("no-", 0) == 0;
      sub->add_flag_function(is_no ? flag : fmt::format("{},!--no-{}", flag, name), set,
                             std::string(option.help) + (on ? " [on]" : ""));
      continue;
    }
    auto set = [&given, name](const std::string& value) { given.push_back({name, value, ""}); };
    const std::string shown = text.empty() ? "" : fmt::format(" [{}]", text);
    sub->add_option_function<std::string>(flag, set, option.help + shown)
        ->type_name(option.value)
        ->take_last();
  }
  for (const Positional& p : kPositionals) {
    if (p.command != row.command) continue;
    auto set = [&given, &p](const std::string& value) { given.push_back({p.option, value, ""}); };
    sub->add_option_function<std::string>(p.shown, set, p.help)->type_name("");
  }
  return sub;
}

}  // namespace

CommandLine read_command_line(int argc, char** argv) {
  std::vector<std::string> script;  // the command of another program, after --
  if (argc == 2 && std::string_view(argv[1]) == "help") argc = 1;
  for (int k = 2; k < argc; ++k) {
    if (std::string_view(argv[k]) != "--") continue;
    if (std::string_view(argv[1]) != "launch")
      return user_error(
          fmt::format("-- with {}, accepted: options; launch runs the command behind --", argv[1]));
    script.assign(argv + k + 1, argv + argc);
    argc = k;
  }
  CLI::App app("Grapevine trains one network on many ranks that never wait for each other.",
               "grapevine");
  app.set_version_flag("--version", std::string("grapevine ") + GRAPEVINE_VERSION);
  app.formatter(std::make_shared<PlainFlags>());
  app.footer("`grapevine COMMAND --help` lists a command's options and shows examples.\n");
  app.allow_extras();
  app.require_subcommand(0, 1);  // later words are arguments of the command
  Given given[std::size(kCommands)];
  CLI::App* subs[std::size(kCommands)];
  for (size_t k = 0; k < std::size(kCommands); ++k)
    subs[k] = add_command(app, kCommands[k], given[k]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    for (CLI::App* sub : subs)
      if (sub->parsed()) return sub->help(app.get_name());
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string_view said = e.what();  // "--lr: 1 required X missing"
    const std::string_view option = said.substr(0, said.find(':'));
    return user_error(said.ends_with(" missing")
                          ? fmt::format("{} has no value, accepted: a value", option)
                          : std::string(said));
  } catch (const CLI::ParseError& e) {
    return user_error(e.what());
  }
  const auto before = app.remaining();  // words before the command, or in place of one
  for (size_t k = 0; k < std::size(kCommands) && before.empty(); ++k) {
    if (!subs[k]->parsed()) continue;
    if (const auto extra = subs[k]->remaining(); !extra.empty())
      return unknown_option(extra.front(), kCommands[k]);
    // Of `--join "$FIRST"`, where FIRST is not set: without it a node would train alone.
    const auto none = std::ranges::find(given[k], std::string(), &ConfigEntry::text);
    if (none != given[k].end())
      return user_error(fmt::format("{} is empty, accepted: a value", none->name));
    auto options = resolve(kCommands[k].command, given[k], script);
    if (!options) return options.error();
    const bool drains = (kCommands[k].command & kDraining) != 0;
    return Invocation{kCommands[k].run, drains, std::move(*options)};
  }
  if (before.empty()) return app.help();
  std::string accepted;
  for (const CommandRow& row : kCommands)
    accepted += (accepted.empty() ? "" : ", ") + std::string(row.name);
  return user_error(fmt::format("unknown command {}, accepted: {}", before.front(), accepted));
}

}  // namespace grapevine
