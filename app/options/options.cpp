#include "app/options/options.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "actors/algorithms/method_registry.hpp"
#include "actors/membership/member_table.hpp"
#include "actors/run/run_node.hpp"
#include "actors/transport/sockets.hpp"
#include "app/options/every.hpp"
#include "app/options/node_environment.hpp"
#include "kernels/base/spec.hpp"
#include "models/guest.hpp"
#include "models/partition.hpp"

namespace grapevine {
namespace {

std::string quoted(const std::string& text) { return fmt::format("\"{}\"", text); }

template <class Number>
Status parse_number(const Option& option, const std::string& text, const char* accepted,
                    Number& out) {
  const auto value = number_of<Number>(text);
  if (!value) {
    const bool too_large = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    const std::string most =
        too_large ? fmt::format(", at most {}", std::numeric_limits<Number>::max()) : "";
    return user_error(
        fmt::format("{} is {}, accepted: {}{}", option.name, quoted(text), accepted, most));
  }
  out = *value;
  return Done{};
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// Number of letters to insert, delete, replace or swap with the next one.
size_t distance(const std::string& a, const std::string& b) {
  const size_t columns = b.size() + 1;
  std::vector<size_t> d((a.size() + 1) * columns);
  auto at = [&](size_t i, size_t j) -> size_t& { return d[i * columns + j]; };
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return d.back();
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace

std::string default_objective(Command command) {
  switch (command) {
    case kSimulate: return "consensus";
    default: return "network";
  }
}

Options default_options(Command command, const std::string& objective) {
  Options o;
  Settings& s = o.settings;
  s.objective.objective = objective;
  if (objective != "network") {
    s.gradients = objective == "quadratic" && (command & (kTrain | kProcesses)) ? s.gradients : 0;
    s.lr.schedule = Schedule::constant;
    s.lr.warmup = s.rule.optimizer.momentum = s.rule.optimizer.weight_decay = 0;
  }
  if (command == kReproduce) {
    o.seeds = 0;
    o.name = "all";
  }
  if (command == kSimulate) {
    s.clock = Clock::simulated;
    s.pacing = Pacing::poisson;
    s.pairing = Pairing::poisson;
    s.sample_s = objective == "network" ? 10 : 0;
  }
  return o;
}

Status set_option(const Option& option, const std::string& text) {
  return std::visit(
      Overloaded{
          [&](std::string* s) -> Status {
            *s = text;
            return Done{};
          },
          [&](double* x) { return parse_number(option, text, "a number", *x); },
          [&](int* n) { return parse_number(option, text, "a whole number", *n); },
          [&](uint64_t* n) { return parse_number(option, text, "a whole number, 0 or more", *n); },
          [&](bool* flag) -> Status {
            if (text != "true" && text != "false") {
              return user_error(
                  fmt::format("{} is {}, accepted: true, false", option.name, quoted(text)));
            }
            *flag = text == "true";
            return Done{};
          },
          [&](const Choice& choice) -> Status {
            const auto& names = choice.names;
            const auto found = std::find(names.begin(), names.end(), text);
            if (found != names.end()) {
              choice.set(static_cast<size_t>(found - names.begin()));
              return Done{};
            }
            std::string accepted;
            for (const auto& name : names)
              accepted += (accepted.empty() ? "" : ", ") + name;
            return user_error(
                fmt::format("{} is {}, accepted: {}", option.name, quoted(text), accepted));
          }},
      option.field);
}

std::string option_text(const Option& option) {
  return std::visit(Overloaded{[](const std::string* s) { return *s; },
                               [](const double* x) { return shortest(*x); },
                               [](const int* n) { return std::to_string(*n); },
                               [](const uint64_t* n) { return std::to_string(*n); },
                               [](const bool* on) { return std::string(*on ? "true" : "false"); },
                               [](const Choice& c) { return c.names[c.get()]; }},
                    option.field);
}

bool is_scripts_own(const Option& option) {
  constexpr std::string_view kOthers[] = {"batch", "clip", "data", "sample"};
  return option.shared == Shared::unless_guests ||
         std::ranges::find(kOthers, option.name) != std::end(kOthers);
}

const Option* find_option(const OptionTable& table, const std::string& name) {
  const std::string wanted = dashed(name);
  for (const Option& option : table)
    if (wanted == option.name) return &option;
  return nullptr;
}

namespace {

// Sorted by their distance from the word.
std::vector<std::pair<size_t, std::string>> by_distance(const std::string& word,
                                                        const std::vector<std::string>& names) {
  constexpr size_t kLongest = 64;  // a longer word resembles no name
  if (word.size() > kLongest) return {};
  const std::string wanted = dashed(word);
  const auto has = [](const std::string& text, const std::string& part) {
    return part.size() > 2 && text.find(part) != text.npos;
  };
  std::vector<std::pair<size_t, std::string>> sorted;
  for (const std::string& name : names) {
    const bool is_part = has(name, wanted) || has(wanted, name);
    sorted.emplace_back(
        is_part ? std::min<size_t>(2, distance(wanted, name)) : distance(wanted, name), name);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return sorted;
}

std::string asked(const std::vector<std::pair<size_t, std::string>>& names, size_t count,
                  const char* before) {
  std::string told;
  for (size_t k = 0; k < std::min(count, names.size()); ++k)
    told += fmt::format("{}{}{}", k > 0 ? ", " : "", before, names[k].second);
  return told.empty() ? "" : fmt::format(" (did you mean {}?)", told);
}

}  // namespace

std::string three_nearest(const std::string& word, const std::vector<std::string>& names,
                          const char* before) {
  return asked(by_distance(word, names), 3, before);
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  const auto sorted = by_distance(word, names);
  const bool is_near =
      !sorted.empty() && sorted.front().first <= std::max<size_t>(1, word.size() / 3);
  return is_near ? asked(sorted, 1, "") : "";
}

namespace {

constexpr int kNodesAtMost = 1024;

// Scripts compute the steps of all ranks of the process.
Status complete_guests(Command command, Options& o) {
  constexpr int kMost = 64;  // as GuestListener::kScripts
  const std::string& objective = o.settings.objective.objective;
  if (o.guests < 0 || o.guests > kMost)
    return user_error(fmt::format("guests is {}, accepted: from 0 to {}", o.guests, kMost));
  if ((o.guests > 0) != (objective == kGuestObjective))
    return user_error(
        fmt::format("objective is {} with guests {}, accepted: no objective with guests, because "
                    "the scripts have theirs",
                    quoted(objective), o.guests));
  if (o.guests == 0 && !o.door.empty())
    return user_error(
        fmt::format("door is {} without guests, accepted: no door, or --guests N", quoted(o.door)));
  if (o.guests == 0 && !o.script.empty())
    return user_error("a command behind -- without guests, accepted: launch --guests N -- COMMAND");
  if (o.restarts < 0 || (o.restarts > 0 && o.guests == 0))
    return user_error(fmt::format("restarts is {}, accepted: {}", o.restarts,
                                  o.guests == 0 ? "0 without guests" : "0 or more"));
  if (o.guests == 0) return Done{};
  if (!o.init.empty())
    return user_error(
        fmt::format("init is {} with guests, accepted: none, because the first script brings the "
                    "starting point",
                    quoted(o.init)));
  if (command == kLaunch && o.script.empty())
    return user_error("guests without a command, accepted: launch --guests N -- COMMAND");
  o.settings.ranks = o.guests;
  if (command == kLaunch) o.nodes = 1;
  return Done{};
}

// The names of nodes on this machine are looked up later.
Status check_addresses(const PeerOptions& p) {
  if (!p.advertise.empty())
    if (Status fits = check_advertised(p.advertise); !fits) return fits;
  for (const std::string_view word : split(p.join, ','))
    if (word.find(':') != word.npos)
      if (Status fits = check_joined(std::string(word)); !fits) return fits;
  return Done{};
}

// --ranks counts the ranks of one process; the settings count those of the whole run.
Status complete_peers(Command command, Options& o) {
  Settings& s = o.settings;
  PeerOptions& p = o.peers;
  if (Status scripts = complete_guests(command, o); !scripts) return scripts;
  if (Status fit = check_addresses(p); !fit) return fit;
  s.local_ranks = s.ranks;
  if (s.ranks < 1) return user_error(fmt::format("ranks is {}, accepted: 1 or more", s.ranks));
  if (!(p.patience_s > 0))
    return user_error(
        fmt::format("patience is {}, accepted: a number above 0", shortest(p.patience_s)));
  if (command == kLaunch) {
    if (o.nodes < 1 || o.nodes > kNodesAtMost)
      return user_error(fmt::format("nodes is {}, accepted: from 1 to {}", o.nodes, kNodesAtMost));
    p.total_ranks = o.nodes * s.ranks;
  } else {
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    if (Status found = find_peers(this_environment(), host, s.ranks, p); !found) return found;
  }
  if (static_cast<uint32_t>(s.local_ranks) > kRanksOfNodeAtMost)
    return user_error(fmt::format("ranks is {}, accepted: 1 to {} for one process", s.local_ranks,
                                  kRanksOfNodeAtMost));
  const auto last = static_cast<int>(kRankNumbersAtMost) - s.local_ranks;
  if (p.first_rank < -1 || p.first_rank > last)
    return user_error(
        fmt::format("first-rank is {}, accepted: -1, or 0 to {}", p.first_rank, last));
  const int needed = std::max(0, p.first_rank) + s.ranks;
  if (p.total_ranks != 0 && p.total_ranks < needed)
    return user_error(
        fmt::format("total-ranks is {}, accepted: 0, or {} or more, with the ranks of this node",
                    p.total_ranks, needed));
  s.ranks = std::max(p.total_ranks, needed);
  return Done{};
}

}  // namespace

namespace {

// Tests of the model during the run, and the samples that are set aside for them.
Status complete_tests(Options& o) {
  Settings& s = o.settings;
  const std::string& objective = s.objective.objective;
  const double split = s.objective.validation_split;
  if (!(split >= 0 && split < 1))
    return user_error(
        fmt::format("validation-split is {}, accepted: from 0 to below 1", shortest(split)));
  if (split > 0 && objective != "network")
    return user_error(
        fmt::format("validation-split is {} with objective {}, which has no data, accepted: 0",
                    shortest(split), quoted(objective)));
  const auto every = every_of("test-every", o.test_every);
  if (!every) return every.error();
  s.objective.has_tester = *every && s.clock == Clock::wall;
  if (!*every && o.early_stop > 0)
    return user_error(
        fmt::format("early-stop is {} without test-every, accepted: 0, or both", o.early_stop));
  if (!*every) return Done{};
  const bool has_loss =
      objective != kGuestObjective && objective != "consensus" && objective != "matrix";
  if (!has_loss)
    return user_error(fmt::format(
        "test-every is {} with objective {}, accepted: {}", quoted(o.test_every), quoted(objective),
        objective == kGuestObjective ? "0, because scripts test their models themselves"
                                     : "0, because it has no loss"));
  if (o.early_stop > 0 && o.seeds > 1)
    return user_error(
        fmt::format("early-stop is {} with seeds {}, accepted: seeds 1", o.early_stop, o.seeds));
  // A test starts at a sample.
  if (every->seconds > 0 && (s.sample_s <= 0 || s.sample_s > every->seconds))
    s.sample_s = every->seconds;
  if (every->steps > 0 && s.sample_s <= 0)
    return user_error(
        fmt::format("test-every is {} with sample-seconds 0, accepted: sample-seconds above 0, "
                    "because a test starts at a sample",
                    quoted(o.test_every)));
  return Done{};
}

// These commands read no launcher's environment, so each of its processes is a run of its own.
void warn_of_others(Command command, Options& o) {
  PeerOptions peers;
  if (!find_peers(this_environment(), "localhost", 1, peers) || peers.total_ranks < 2) return;
  o.warnings.push_back(
      fmt::format("a launcher has started {} processes, and each of them runs {} by itself; "
                  "grapevine node has them train together",
                  peers.total_ranks, command == kLaunch ? "launch" : "train"));
}

}  // namespace

Status complete(Command command, Options& o) {
  Settings& s = o.settings;
  if (command & kProcesses)
    if (Status known = complete_peers(command, o); !known) return known;
  if (!o.save && !o.out.empty())
    return user_error(
        fmt::format("out is {} with --no-save, accepted: one of the two", quoted(o.out)));
  if (o.tensorboard && (!o.save || (command == kSimulate && o.out.empty())))
    return user_error("tensorboard without a run directory, accepted: tensorboard with --out");
  if (auto every = every_of("checkpoint-every", o.checkpoint_every); !every) return every.error();
  const bool is_saved = (command & (kTrain | kProcesses)) != 0 ? o.save : !o.out.empty();
  if (!is_saved && !o.checkpoint_every.empty() && o.checkpoint_every != "0")
    return user_error(fmt::format(
        "checkpoint-every is {} without a run directory, accepted: 0, or a run directory (--out)",
        quoted(o.checkpoint_every)));
  if (!o.init.empty() && !o.resume.empty())
    return user_error(
        fmt::format("init is {} with resume, accepted: one of the two", quoted(o.init)));
  if (!o.resume.empty() && o.seeds != 1)
    return user_error(fmt::format("seeds is {} with resume, accepted: 1", o.seeds));
  if (o.seeds < 1) return user_error("seeds is 0, accepted: 1 or more");
  const std::string& objective = s.objective.objective;
  const bool gossips_only = objective == "consensus" || objective == "matrix";
  if (s.target > 0 && !gossips_only) {
    return user_error(
        fmt::format("target is {} with objective {}, whose ranks start equal, accepted: a target "
                    "with objective consensus or matrix",
                    shortest(s.target), quoted(objective)));
  }
  if (Status tested = complete_tests(o); !tested) return tested;
  const Method* method = find_method(s.method);
  const bool rounds = method != nullptr && method->pattern == Pattern::rounds;
  const bool in_step = method != nullptr && method->pattern != Pattern::pairwise;
  if (in_step) s.pacing = Pacing::greedy;  // a round begins when the last one has ended
  const bool ends =
      s.until_s != 0 || s.target > 0 || (s.gradients > 0 && (rounds || !gossips_only));
  if (!ends && o.guests == 0) s.until_s = s.clock == Clock::wall ? 10 : 100;
  if (s.gradients > 0 && s.ranks > 0 && s.gradients < static_cast<uint64_t>(s.ranks)) {
    return user_error(fmt::format("gradients is {}, accepted: 0, or at least {}, one for each rank",
                                  s.gradients, s.ranks));
  }
  // A free rank takes the next gradient, so each rank gets all samples: otherwise a fast rank would
  // repeat its own share.
  const std::string& partition = s.objective.partition;
  if (pools(s) && objective == "network" && (partition == "auto" || partition == "iid"))
    s.objective.partition = kWhole;
  s.objective.ranks = s.ranks;
  s.objective.seed = s.seed;
  if (Status fits = command & kProcesses ? check_of_node(s) : check(s); !fits) return fits;
  const bool by_graph = method != nullptr && method->goes_by_graph();
  o.warnings = without_effect(s.plan, by_graph ? s.topology : "", s.ranks, s.until_s);
  if (command & (kTrain | kLaunch)) warn_of_others(command, o);
  const bool one_process = (command & (kProcesses | kDoctor)) == 0;
  if (s.device_link != DeviceLink::automatic && (one_process || s.device == "cpu"))
    o.warnings.push_back(
        fmt::format("link has no effect {}", one_process ? "in one process" : "with device cpu"));
  return Done{};
}

}  // namespace grapevine
