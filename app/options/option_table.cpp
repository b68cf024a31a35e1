// The rows of the table of options, by what they are about.
#include <fmt/core.h>

#include "actors/algorithms/method_registry.hpp"
#include "app/options/options.hpp"

namespace grapevine {
namespace {

constexpr unsigned kGraphs = kRuns | kTopology;
constexpr unsigned kSized = kRuns | kDoctor;  // what the memory of a job follows from

template <class Enum>
Choice choice(Enum& value, std::vector<std::string> names_in_order) {
  return {std::move(names_in_order), [&value] { return static_cast<size_t>(value); },
          [&value](size_t k) { value = static_cast<Enum>(k); }};
}

OptionTable rows_of_the_run(Options& o) {
  Settings& s = o.settings;
  return {
      {"topology", &s.topology, kGraphs | kDoctor, "SPEC",
       "the graph; grapevine topology --help lists all", Shared::always},
      {"ranks", &s.ranks, kGraphs | kData | kDoctor, "N",
       "participants, each with a model of its own"},
      {"rate", &s.rate, kGraphs, "R", "exchanges per rank and mean gradient", Shared::always},
      {"method", &s.method, kSized, "M",
       fmt::format("the training method: {}; see grapevine methods", method_names()),
       Shared::always},
      {"seed", &s.seed, kRuns | kData | kReproduce, "S", "of all that is random", Shared::always},
      {"data", &s.objective.data_dir, kSized | kData | kReproduce, "DIR",
       "where the data set is, or a folder with its folder"},
      {"pacing", choice(s.pacing, {"poisson", "greedy"}), kRuns, "P",
       "gradients: poisson, or greedy (one after the other)", Shared::by_default},
      {"pairing", choice(s.pairing, {"free", "poisson"}), kRuns, "P",
       "exchanges: free (own clocks, no repeats), or poisson (a clock per edge)", Shared::always},
      {"plan", &o.plan, kTrain | kSimulate, "FILE", "a plan of faults (TOML)"},
      {"out", &o.out, kTrain | kSimulate | kCompare, "DIR",
       "the run directory, else runs/TIME-METHOD-GRAPH-SEED; of simulate: none; of compare: where "
       "finished runs are kept, else JOB's stem + .results"},
      {"tensorboard", &o.tensorboard, kTrain | kSimulate, "",
       "also write event files for TensorBoard, in the run directory"},
      {"save", &o.save, kTrain, "", "write a run directory: model, curves and record"},
      {"checkpoint-every", &o.checkpoint_every, kTrain | kSimulate, "T",
       "save all that a run goes on from: 60s, 1000steps (of each rank), or 0: never; none: 300s, "
       "of simulate 0"},
      {"resume", &o.resume, kTrain | kSimulate, "DIR",
       "go on with a run from its newest whole checkpoint, or from that one"},
      {"init", &o.init, kTrain | kSimulate, "FILE",
       "begin at a model: a safetensors or .pt file, another run's folder, or a checkpoint's mean"},
      {"gradients", &s.gradients, kRuns, "N", "of all ranks together; 0: until --until",
       Shared::always},
      {"share", choice(s.share, {"auto", "pool", "equal"}), kRuns, "HOW",
       "whose the gradients are: pool (whoever is free takes the next), equal (each rank as many), "
       "auto (pool where ranks do not wait for each other and have the same data)",
       Shared::always},
      {"fastest-at-most", &s.fastest_at_most, kTrain, "X",
       "times the median pace of a rank that a member of a pool is believed", Shared::always},
      {"epochs", &o.epochs, kTrain | kSimulate, "N",
       "passes of all ranks over the data, in place of --gradients; 0: those count",
       Shared::always},
      {"until", &s.until_s, kRuns, "T", "stop after so many seconds of the run's clock; 0: never",
       Shared::by_default},
      {"sample-seconds", &s.sample_s, kTrain | kSimulate, "T",
       "between two samples of the consensus distance; 0: none"},
      {"alarm-seconds", &s.alarm_s, kTrain, "T",
       "an edge without an exchange, or a rank that waits, for so long is an alarm; 0: never"},
      {"test-every", &o.test_every, kTrain | kSimulate, "T",
       "test the averaged model while it trains, at samples, and keep the best: 60s, 1000steps (of "
       "each rank), or 0: at the end only"},
      {"early-stop", &o.early_stop, kTrain | kSimulate, "N",
       "end after so many tests without a better one; 0: never"},
      {"threads", &s.threads, kTrain | kCompare | kReproduce, "N",
       "that compute gradients; of compare and reproduce: runs at once; 0: one per core"},
      {"device", &s.device, kTrain | kDoctor, "D",
       "where the ranks live and compute: cpu, cuda, cuda:K (GPU K), or auto (the emptiest GPU, if "
       "there is one on which the run can be)"},
      {"link", choice(s.device_link, {"auto", "host", "vmm", "nccl"}), kTrain | kDoctor, "NAME",
       "how snapshots on a GPU reach other processes: auto (read in place on one host, where GPUs "
       "reach each other's memory), host, vmm (auto, and says where it cannot), nccl "
       "(experimental: between GPUs that ask for it, in the clear)"},
  };
}

OptionTable rows_of_the_method(Options& o) {
  Settings& s = o.settings;
  return {
      {"lr", &s.lr.peak, kRuns, "X", "the largest learning rate", Shared::unless_guests},
      {"schedule", choice(s.lr.schedule, {"constant", "step", "cosine"}), kRuns, "NAME",
       "of the learning rate: constant, step or cosine", Shared::unless_guests},
      {"warmup", &s.lr.warmup, kRuns, "X", "part of the gradients over which the rate rises from 0",
       Shared::unless_guests},
      {"momentum", &s.rule.optimizer.momentum, kSized, "X", "of the gradients",
       Shared::unless_guests},
      {"nesterov", &s.rule.optimizer.nesterov, kRuns, "", "Nesterov's momentum",
       Shared::unless_guests},
      {"weight-decay", &s.rule.optimizer.weight_decay, kRuns, "X", "added to the gradient, times x",
       Shared::unless_guests},
      {"optimizer", choice(s.rule.optimizer.kind, {"sgd", "adam", "adamw"}), kSized, "NAME",
       "of each rank: sgd, adam or adamw", Shared::unless_guests},
      {"inner-steps", &s.inner_steps, kSized, "N",
       "steps of that optimizer that a rank takes alone before it hands what they did to the "
       "method, as a gradient; --rate is of exchanges for each of these",
       Shared::unless_guests},
      {"outer-lr", &s.outer_lr, kSized, "X",
       "learning rate of the method's step then; 0: 0.7 where inner-steps are above 1",
       Shared::unless_guests},
      {"outer-momentum", &s.outer_momentum, kSized, "X", "Nesterov's momentum of it",
       Shared::unless_guests},
      {"compress", &s.rule.compress, kSized, "SPEC",
       "what gossip sends: powergossip:rank=1, random:0.01, top-k:0.01, sign, quantise:4, ..."},
      {"wire", choice(s.rule.wire, {"full", "bf16"}), kSized, "NAME",
       "how pairs send models: full, or bf16: rounded, half the bytes"},
      {"gamma", &s.rule.gamma, kRuns, "X",
       "step size of gossip; 0: the best for graph and weights"},
      {"weights", &s.weights, kRuns, "SPEC", "of gossip in rounds: metropolis, lazy or uniform:W"},
      {"normalisation", choice(s.rule.normalisation, {"counts", "own", "x0", "previous"}), kRuns,
       "NAME", "what stands in for relays not yet heard: counts, own, x0 or previous"},
      {"relay-lr", &s.rule.relay_lr, kRuns, "",
       "relaysgd: the learning rate times 1 + the mean delay of the tree"},
      {"missing", choice(s.rule.missing, {"resend", "renormalise", "own", "reuse", "shrink"}),
       kRuns, "NAME",
       "a lost message of a round: resend, or go on: renormalise, own, reuse or shrink"},
      {"reference-schedule", &s.rule.reference_schedule, kRuns, "",
       "sgp: the shifts in the order of a published code"},
  };
}

OptionTable rows_of_the_objective(Options& o) {
  ObjectiveSpec& b = o.settings.objective;
  return {
      {"objective", &b.objective, kSized | kData, "NAME",
       "network, quadratic, consensus, matrix, scalar, diagonal or mean"},
      {"decay-norms", &b.decay_norms_and_biases, kRuns, "", "weight decay on norms and biases too"},
      {"model", &b.model, kSized, "NAME",
       "linear, mlp, cnn-small, cnn-big or resnet18; of text lm-char, lm-word, gpt-char or "
       "gpt:LAYERSxHEADSxWIDTH,ctx=N; or a TorchScript FILE.pt"},
      {"loss", &b.loss, kRuns, "NAME", "cross_entropy or mse; auto: what the targets ask for"},
      {"dataset", &b.dataset, kSized | kData, "NAME",
       "fashion-mnist, mnist, cifar10, optdigits, a9a, w8a; text: tiny-shakespeare, wikitext-2; or "
       "FILE.npz, FILE.safetensors, FILE.csv, text:FILE"},
      {"partition", &b.partition, kRuns | kData, "SPEC",
       "of the data over ranks: iid, whole (each rank has all), label, dirichlet:ALPHA or "
       "contiguous"},
      {"validation-split", &b.validation_split, kRuns | kData, "F",
       "share of the training samples that is set aside, by the seed: tests judge by them"},
      {"batch", &b.batch, kSized, "N", "samples per gradient", Shared::by_default},
      {"window", &b.window, kRuns, "N", "text: characters or words that a gradient goes back"},
      {"clip", &b.clip, kRuns, "X", "the longest gradient, a norm; 0: any", Shared::by_default},
      {"precision", &b.precision, kRuns, "NAME",
       "layers compute in fp32, or in bf16 between parameters and gradients in fp32"},
      {"tf32", &b.tf32, kRuns, "",
       "of fp32 on a GPU: convolutions may round what they multiply to 10 bits, as in PyTorch"},
      {"flip", &b.flip, kRuns, "", "mirror images at random, where the set allows it"},
      {"dim", &b.dim, kSized, "N", "coordinates of the analytic objectives"},
      {"noise", &b.noise, kRuns, "X",
       "deviation of the quadratic's gradient noise, per coordinate"},
      {"zeta2", &b.zeta2, kRuns, "X", "how far the ranks of an analytic objective disagree"},
      {"mu", &b.mu, kRuns, "X", "smallest singular value of the quadratics, the largest being 1"},
      {"r0", &b.r0, kRuns, "X", "distance of the optimum from the start"},
      {"rows", &b.rows, kRuns, "N", "of the matrix objective"},
      {"columns", &b.columns, kRuns, "N", "of the matrix objective"},
      {"entries", &b.entries, kRuns, "NAME", "of the matrix objective: gaussian or sines"},
      {"spectrum-decay", &b.spectrum_decay, kRuns, "P", "singular values of the matrix as k^-P"},
  };
}

OptionTable rows_of_the_virtual_clock(Options& o) {
  Settings& s = o.settings;
  return {
      {"latency", &s.link.latency_s, kSimulate, "T", "of a link, one way, control frames"},
      {"jitter", &s.link.jitter, kSimulate, "X", "of the latency, as a fraction of it"},
      {"transfer", &s.link.transfer_s, kSimulate, "T", "seconds of a bulk transfer"},
      {"bandwidth", &s.link.bandwidth, kSimulate, "B", "bytes per second; 0: unlimited"},
      {"gradient-seconds", &s.gradient_s, kSimulate, "T", "that a modelled gradient takes"},
      {"speed-spread", &s.speed_spread, kSimulate, "X",
       "sigma of a gradient's log-normal duration, its mean kept"},
      {"target", &s.target, kSimulate, "D", "stop when |pi x| has shrunk by this factor; 0: never"},
      {"seeds", &o.seeds, kSimulate | kReproduce, "K",
       "so many runs, from --seed on; of reproduce: 0 is each figure's own number"},
  };
}

OptionTable rows_of_several_processes(Options& o) {
  PeerOptions& p = o.peers;
  return {
      {"listen", &p.listen, kNode | kDoctor, "ADDR",
       "host:port (port 0: any) or unix:/path; none: a unix socket of this user, or where those of "
       "--join reach this machine"},
      {"advertise", &p.advertise, kNode, "ADDR",
       "host:port that the others are told to reach this node at, where it is not the one that it "
       "listens at: behind a forwarded port, for instance"},
      {"join", &p.join, kNode | kDoctor, "ADDR,..",
       "nodes of the run; any live one will do, and tells the settings of the run"},
      {"node-name", &p.name, kProcesses, "NAME",
       "its own in the run; of launch: NAME.0, NAME.1, ...; none: of host and process"},
      {"run-name", &p.run, kProcesses, "NAME", "nodes of another run are refused"},
      {"key", &p.key, kProcesses | kCtl | kDoctor, "FILE",
       "the run key (grapevine keygen); needed for TCP"},
      {"no-key", &p.no_key, kProcesses | kDoctor, "",
       "TCP on loopback without a key: every user of this machine can stop the run"},
      {"ends-with-input", &p.ends_with_input, kNode, "",
       "leave when standard input ends, as launch asks of nodes on other machines"},
      {"first-rank", &p.first_rank, kNode, "N", "of its ranks; -1: those that are free"},
      {"total-ranks", &p.total_ranks, kNode, "N",
       "to wait for before the run begins; 0: begins at once, and grows", Shared::by_default},
      {"patience", &p.patience_s, kProcesses, "T",
       "seconds to wait for the others at the start and at the end"},
      {"metrics", &p.metrics, kProcesses, "[HOST:]PORT",
       "serve /metrics over HTTP as Prometheus reads it, and /healthz and /readyz for probes, on "
       "loopback where no HOST is given; of launch: the first node's, the others' follow"},
      {"bulk-encryption", &p.bulk_encryption, kProcesses, "", "with a key: of vectors too"},
      {"guests", &o.guests, kProcesses, "N",
       "ranks whose steps scripts compute; of launch: scripts, each the command behind --"},
      {"restarts", &o.restarts, kLaunch, "N",
       "start a script that ends before its share is done again, so often"},
      {"door", &o.door, kNode, "PATH", "a unix socket for them; none: of this user, by the name"},
      {"nodes", &o.nodes, kLaunch, "N", "processes, each with --ranks ranks"},
      {"hosts", &o.hosts, kLaunch, "FILE",
       "start them over ssh: a host a line, the address where it is reached"},
      {"address", &o.address, kCtl, "ADDR",
       "a node of this machine by its name, or where one listens"},
      {"verb", &o.verb, kCtl, "VERB", "what is asked"},
      {"argument", &o.argument, kCtl | kKeygen, "ARG", "a graph, a file, or how many events"},
  };
}

OptionTable rows_of_the_program(Options& o) {
  return {
      {"svg", &o.svg, kTopology, "FILE", "draw the graph"},
      {"job", &o.job, kCompare, "FILE", "what is compared (TOML)"},
      {"name", &o.name, kReproduce, "NAME", "which one; all: those that need no data set"},
      {"list", &o.list, kReproduce, "", "name them all"},
      {"steps", &o.steps, kReproduce, "N",
       "rounds of a run at most, for a quick look that fails; 0: as many as it takes"},
      {"config", &o.config, kRuns | kTopology | kData, "FILE", "options from a file (TOML)"},
      {"json", &o.json,
       kRuns | kTopology | kData | kMethods | kCompare | kReproduce | kCtl | kDoctor, "",
       "print one JSON value on standard output"},
      {"log-level", choice(o.log.level, {"info", "warning", "none"}), kTrain | kSimulate, "NAME",
       "of what is said on standard error: info, warning (alarms alone) or none"},
      {"log-format", choice(o.log.format, {"text", "json"}), kTrain | kSimulate, "NAME",
       "of it: text, or json (an object a line)"},
      {"quiet", &o.log.quiet, kRuns | kCompare | kReproduce, "",
       "no progress and no events on standard error; alarms are told"},
  };
}

struct Group {
  OptionTable (*rows)(Options&);
  Shared shared;  // those that do not say
};

constexpr Group kGroups[] = {
    {rows_of_the_run, Shared::no},
    {rows_of_the_method, Shared::always},
    {rows_of_the_objective, Shared::unless_guests},
    {rows_of_the_virtual_clock, Shared::no},
    {rows_of_several_processes, Shared::no},
    {rows_of_the_program, Shared::no},
};

}  // namespace

OptionTable option_table(Options& o) {
  OptionTable table;
  for (const Group& group : kGroups) {
    for (Option option : group.rows(o)) {
      if (option.shared == Shared::no) option.shared = group.shared;
      table.push_back(std::move(option));
    }
  }
  for (Option& option : table)
    if (option.commands & kTrain) option.commands |= kProcesses;
  return table;
}

}  // namespace grapevine
