#include "app/options.hpp"

#include <algorithm>
#include <charconv>

#include "actors/algorithms/choose.hpp"

namespace grapevine {
namespace {

template <class Enum>
Choice choice(Enum& value, std::vector<std::string> names_in_order) {
  return {std::move(names_in_order), [&value] { return static_cast<size_t>(value); },
          [&value](size_t k) { value = static_cast<Enum>(k); }};
}

void add_run_rows(Options& o, OptionTable& t) {
  Settings& s = o.settings;
  ObjectiveSpec& b = s.objective;
  constexpr unsigned runs = kRuns, graphs = kRuns | kTopology, simulated = kSimulate | kStragglers;
  const OptionTable rows = {
      {"topology", &s.topology, graphs, "SPEC", "the graph; grapevine topology --help lists all"},
      {"ranks", &s.ranks, graphs, "N", "participants, each with a model of its own"},
      {"rate", &s.rate, graphs, "R", "exchanges per rank and mean gradient"},
      {"method", &s.method, runs, "M", "the training method: a2cid2, relaysgd, powergossip, ..."},
      {"seed", &s.seed, runs, "S", "of all that is random"},
      {"pacing", choice(s.pacing, {"poisson", "greedy"}), runs, "P",
       "gradients: poisson, or greedy (one after the other)"},
      {"pairing", choice(s.pairing, {"free", "poisson"}), runs, "P",
       "exchanges: free (own clocks, no repeats), or poisson (a clock per edge)"},
      {"plan", &o.plan, kTrain | kSimulate, "FILE", "a plan of faults (TOML)"},
      {"out", &o.out, kTrain | kSimulate, "DIR", "the run directory"},
      {"gradients", &s.gradients, runs, "N", "of all ranks together; 0: until --until"},
      {"until", &s.until_s, runs, "T", "stop after so many seconds of the run's clock; 0: never"},
      {"sample-seconds", &s.sample_s, kTrain | kSimulate, "T",
       "between two samples of the consensus distance; 0: none"},
      {"objective", &b.objective, runs, "NAME", "network, quadratic, consensus, matrix, scalar, diagonal or mean"},
      {"lr", &s.lr.peak, runs, "X", "the largest learning rate"},
      {"schedule", choice(s.lr.schedule, {"constant", "step", "cosine"}), runs, "NAME",
       "of the learning rate: constant, step or cosine"},
      {"warmup", &s.lr.warmup, runs, "X", "part of the gradients over which the rate rises from 0"},
      {"momentum", &s.rule.optimizer.momentum, runs, "X", "of the gradients"},
      {"nesterov", &s.rule.optimizer.nesterov, runs, "", "Nesterov's momentum"},
      {"weight-decay", &s.rule.optimizer.weight_decay, runs, "X", "added to the gradient, times x"},
      {"optimizer", choice(s.rule.optimizer.kind, {"sgd", "adam", "adamw"}), runs, "NAME",
       "of each rank: sgd, adam or adamw"},
      {"compress", &s.rule.compress, runs, "SPEC",
       "what gossip sends: powergossip:rank=1, top-k:0.01, sign, quantise:4, ..."},
      {"gamma", &s.rule.gamma, runs, "X", "step size of gossip; 0: the best for graph and weights"},
      {"weights", &s.weights, runs, "SPEC", "of gossip in rounds: metropolis, lazy or uniform:W"},
      {"normalisation",
       choice(s.rule.normalisation, {"counts", "own", "x0", "previous"}), runs, "NAME",
       "what stands in for relays not yet heard: counts, own, x0 or previous"},
      {"relay-lr", &s.rule.relay_lr, runs, "",
       "relaysgd: the learning rate times 1 + the mean delay of the tree"},
      {"missing",
       choice(s.rule.missing, {"resend", "renormalise", "own", "reuse", "shrink"}), runs, "NAME",
       "a lost message of a round: resend, or go on: renormalise, own, reuse or shrink"},
      {"reference-schedule", &s.rule.reference_schedule, runs, "",
       "sgp: the shifts in the order of a published code"},
      {"decay-norms", &b.decay_norms_and_biases, runs, "", "weight decay on norms and biases too"},
      {"model", &b.model, runs, "NAME", "linear, mlp, cnn-small, cnn-big or resnet18"},
      {"dataset", &b.dataset, runs, "NAME",
       "fashion-mnist, mnist, cifar10, optdigits, a9a, w8a"},
      {"data", &b.data_dir, runs, "DIR", "where the data set is, or a folder with its folder"},
      {"partition", &b.partition, runs, "SPEC",
       "of the data over ranks: iid, label, dirichlet:ALPHA or contiguous"},
      {"batch", &b.batch, runs, "N", "samples per gradient"},
      {"window", &b.window, runs, "N", "text: characters or words that a gradient goes back"},
      {"clip", &b.clip, runs, "X", "the longest gradient, a norm; 0: any"},
      {"flip", &b.flip, runs, "", "mirror images at random, where the set allows it"},
      {"threads", &s.threads, kTrain | kStragglers, "N", "that compute gradients; 0: one per core"},
      {"dim", &b.dim, runs, "N", "coordinates of the analytic objectives"},
      {"noise", &b.noise, runs, "X", "deviation of the quadratic's gradient noise, per coordinate"},
      {"zeta2", &b.zeta2, runs, "X", "how far the ranks of an analytic objective disagree"},
      {"mu", &b.mu, runs, "X", "smallest singular value of the quadratics, the largest being 1"},
      {"r0", &b.r0, runs, "X", "distance of the optimum from the start"},
      {"rows", &b.rows, runs, "N", "of the matrix objective"},
      {"columns", &b.columns, runs, "N", "of the matrix objective"},
      {"entries", &b.entries, runs, "NAME", "of the matrix objective: gaussian or sines"},
      {"spectrum-decay", &b.spectrum_decay, runs, "P", "singular values of the matrix as k^-P"},
      {"latency", &s.link.latency_s, simulated, "T", "of a link, one way, control frames"},
      {"jitter", &s.link.jitter, simulated, "X", "of the latency, as a fraction of it"},
      {"transfer", &s.link.transfer_s, simulated, "T", "seconds of a bulk transfer"},
      {"bandwidth", &s.link.bandwidth, simulated, "B", "bytes per second; 0: unlimited"},
      {"gradient-seconds", &s.gradient_s, simulated, "T", "that a modelled gradient takes"},
      {"speed-spread", &s.speed_spread, simulated, "X",
       "sigma of a gradient's log-normal duration, its mean kept"},
      {"target", &s.target, kSimulate, "D", "stop when |pi x| has shrunk by this factor; 0: never"},
      {"seeds", &o.seeds, kSimulate, "K", "so many runs, from --seed on"},
      {"allow-repeats", &s.allow_repeats, kSimulate, "",
       "a control that the protocol forbids: the same partner again"},
      {"exchanges-at-once", &s.exchanges_at_once, kSimulate, "N",
       "a control that the protocol forbids: more than one"},
  };
  t.insert(t.end(), rows.begin(), rows.end());
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

template <class Number>
Status parse_number(const Option& option, const std::string& text, const char* accepted,
                    Number& out) {
  const char* end = text.data() + text.size();
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) {
    return user_error(std::string(option.name) + " is " + quoted(text) + ", accepted: " + accepted);
  }
  out = value;
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

// Letters to insert, delete, replace or swap with the next one.
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

OptionTable option_table(Options& o) {
  OptionTable t;
  add_run_rows(o, t);
  const OptionTable rest = {
      {"slow-rank", &o.slow_rank, kStragglers, "N", "the rank that is slow"},
      {"factor", &o.factor, kStragglers, "X", "how many times slower it computes"},
      {"svg", &o.svg, kTopology, "FILE", "draw the graph"},
      {"config", &o.config, kRuns | kTopology, "FILE", "options from a file (TOML)"},
      {"json", &o.json, kRuns | kTopology, "", "print one JSON object on standard output"},
      {"quiet", &o.quiet, kRuns, "", "no progress and no events on standard error"},
  };
  t.insert(t.end(), rest.begin(), rest.end());
  return t;
}

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
    s.gradients = objective == "quadratic" && command == kTrain ? s.gradients : 0;
    s.lr.schedule = Schedule::constant;
    s.lr.warmup = s.rule.optimizer.momentum = s.rule.optimizer.weight_decay = 0;
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
      Overloaded{[&](std::string* s) -> Status {
                   *s = text;
                   return Done{};
                 },
                 [&](double* x) { return parse_number(option, text, "a number", *x); },
                 [&](int* n) { return parse_number(option, text, "a whole number", *n); },
                 [&](uint64_t* n) {
                   return parse_number(option, text, "a whole number, 0 or more", *n);
                 },
                 [&](bool* flag) -> Status {
                   if (text != "true" && text != "false") {
                     return user_error(std::string(option.name) + " is " + quoted(text) +
                                       ", accepted: true, false");
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
                   for (const auto& name : names) accepted += (accepted.empty() ? "" : ", ") + name;
                   return user_error(std::string(option.name) + " is " + quoted(text) +
                                     ", accepted: " + accepted);
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

const Option* find_option(const OptionTable& table, const std::string& name) {
  const std::string wanted = dashed(name);
  for (const Option& option : table)
    if (wanted == option.name) return &option;
  return nullptr;
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t least = 1 + std::max<size_t>(1, word.size() / 3);
  for (const std::string& name : names) {
    const size_t d = distance(dashed(word), name);
    if (d >= least) continue;
    least = d;
    best = name;
  }
  return best;
}

Status complete(Command command, Options& o) {
  Settings& s = o.settings;
  if (o.seeds < 1) return user_error("seeds is 0, accepted: 1 or more");
  if (s.exchanges_at_once < 1) {
    return user_error("exchanges-at-once is " + std::to_string(s.exchanges_at_once) +
                      ", accepted: 1 or more");
  }
  const std::string& objective = s.objective.objective;
  const bool gossips_only = objective == "consensus" || objective == "matrix";
  if (s.target > 0 && !gossips_only) {
    return user_error("target is " + shortest(s.target) + " with objective " + quoted(objective) +
                      ", where ranks start equal, accepted: a target with objective consensus " +
                      "or matrix");
  }
  const Method* method = find_method(s.method);
  const bool rounds = method != nullptr && method->pattern == Pattern::rounds;
  if (rounds) s.pacing = Pacing::greedy;  // a round begins when the last one has ended
  const bool ends =
      s.until_s > 0 || s.target > 0 || (s.gradients > 0 && (rounds || !gossips_only));
  if (!ends && command != kStragglers) s.until_s = s.clock == Clock::wall ? 10 : 100;
  if (s.gradients > 0 && s.ranks > 0 && s.gradients < static_cast<uint64_t>(s.ranks)) {
    return user_error("gradients is " + std::to_string(s.gradients) +
                      ", accepted: 0, or at least " + std::to_string(s.ranks) +
                      ", one for each rank");
  }
  s.objective.ranks = s.ranks;
  s.objective.seed = s.seed;
  return check(s);
}

}  // namespace grapevine
