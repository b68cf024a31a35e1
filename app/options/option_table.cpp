// The rows of the table of options, by subject.
#include <fmt/core.h>

#include "actors/algorithms/method_registry.hpp"
#include "app/options/options.hpp"

namespace grapevine {
namespace {

constexpr unsigned kGraphs = kRuns | kTopology;
constexpr unsigned kSized = kRuns | kDoctor;  // commands that depend on the memory of a job

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
       "number of participants, each with its own model"},
      {"rate", &s.rate, kGraphs, "R", "exchanges of a rank in the mean time of a gradient",
       Shared::always},
      {"method", &s.method, kSized, "M",
       fmt::format("the training method: {}; see grapevine methods", method_names()),
       Shared::always},
      {"seed", &s.seed, kRuns | kData | kReproduce, "S", "seed of all random numbers",
       Shared::always},
      {"data", &s.objective.data_dir, kSized | kData | kReproduce, "DIR",
       "folder of the data set, or the parent of that folder"},
      {"pacing", choice(s.pacing, {"poisson", "greedy"}), kRuns, "P",
       "gradients: poisson, or greedy (one after the other)", Shared::by_default},
      {"pairing", choice(s.pairing, {"free", "poisson"}), kRuns, "P",
       "exchanges: free (a clock per rank, no repeats), poisson (one per edge)", Shared::always},
      {"plan", &o.plan, kTrain | kSimulate, "FILE", "a plan of faults (TOML)"},
      {"out", &o.out, kTrain | kSimulate | kCompare, "DIR",
       "run directory; default runs/TIME-METHOD-GRAPH-SEED, of simulate none; of compare: folder "
       "of finished runs, default JOB's stem + .results"},
      {"tensorboard", &o.tensorboard, kTrain | kSimulate, "",
       "also write event files for TensorBoard, in the run directory"},
      {"save", &o.save, kTrain, "", "write a run directory: model, curves and record"},
      {"checkpoint-every", &o.checkpoint_every, kTrain | kSimulate, "T",
       "how often a checkpoint is saved: 60s, 1000steps (of each rank), or 0: never; default 300s, "
       "of simulate 0"},
      {"resume", &o.resume, kTrain | kSimulate, "DIR",
       "continue a run from its newest complete checkpoint, or from the given one"},
      {"init", &o.init, kTrain | kSimulate, "FILE",
       "start at a model: a safetensors, npz or .pt file, another run's folder, or a checkpoint's "
       "mean"},
      {"gradients", &s.gradients, kRuns, "N",
       "number of gradients of all ranks together; 0: until --until", Shared::always},
      {"share", choice(s.share, {"auto", "pool", "equal"}), kRuns, "HOW",
       "how ranks share the gradients: pool (a free rank takes the next one), equal (each rank "
       "takes the same number), auto (pool if ranks do not wait for each other and have the same "
       "data)",
       Shared::always},
      {"fastest-at-most", &s.fastest_at_most, kTrain, "X",
       "pool: the highest pace of a rank that other nodes accept, in multiples of the median",
       Shared::always},
      {"epochs", &o.epochs, kTrain | kSimulate, "N",
       "passes of all ranks together over the data, instead of --gradients; 0: use --gradients",
       Shared::always},
      {"until", &s.until_s, kRuns, "T", "stop after T seconds of the run's clock; 0: never",
       Shared::by_default},
      {"sample-seconds", &s.sample_s, kTrain | kSimulate, "T",
       "seconds between two samples of the consensus distance, longer for large models; 0: none"},
      {"alarm-seconds", &s.alarm_s, kTrain, "T",
       "an alarm is raised if an edge has no exchange, or a rank waits, for T seconds; 0: never"},
      {"test-every", &o.test_every, kTrain | kSimulate, "T",
       "how often the averaged model is tested: 60s, 1000steps (of each rank), or 0: only at the "
       "end; a test happens when a sample is taken, and the best model is kept"},
      {"early-stop", &o.early_stop, kTrain | kSimulate, "N",
       "end after N tests without a better result; 0: never"},
      {"threads", &s.threads, kTrain | kCompare | kReproduce, "N",
       "threads that compute gradients; of compare and reproduce: runs at once; 0: one per core"},
      {"device", &s.device, kTrain | kDoctor, "D",
       "where ranks and networks run: cpu, cuda, cuda:K (GPU K), or auto (the GPU with the most "
       "free memory, or the CPU if the run cannot be on a GPU)"},
      {"link", choice(s.device_link, {"auto", "host", "vmm", "nccl"}), kTrain | kDoctor, "NAME",
       "how snapshots on a GPU reach other processes: auto (read in place on one host if the GPUs "
       "reach each other's memory), host (copied), vmm (as auto, and reports copies), nccl "
       "(experimental, not encrypted; both processes must ask for it)"},
  };
}

OptionTable rows_of_the_method(Options& o) {
  Settings& s = o.settings;
  return {
      {"lr", &s.lr.peak, kRuns, "X", "the largest learning rate", Shared::unless_guests},
      {"schedule", choice(s.lr.schedule, {"constant", "step", "cosine"}), kRuns, "NAME",
       "schedule of the learning rate: constant, step or cosine", Shared::unless_guests},
      {"warmup", &s.lr.warmup, kRuns, "X",
       "fraction of the gradients during which the learning rate rises from 0",
       Shared::unless_guests},
      {"momentum", &s.rule.optimizer.momentum, kSized, "X", "momentum of the gradients",
       Shared::unless_guests},
      {"nesterov", &s.rule.optimizer.nesterov, kRuns, "", "Nesterov's momentum",
       Shared::unless_guests},
      {"weight-decay", &s.rule.optimizer.weight_decay, kRuns, "X",
       "X times the parameters is added to the gradient (adamw: to the step)",
       Shared::unless_guests},
      {"optimizer", choice(s.rule.optimizer.kind, {"sgd", "adam", "adamw"}), kSized, "NAME",
       "optimizer of each rank: sgd, adam or adamw", Shared::unless_guests},
      {"beta2", &s.rule.optimizer.beta2, kRuns, "X",
       "adam and adamw: factor of the mean square of earlier gradients at each step",
       Shared::unless_guests},
      {"inner-steps", &s.inner_steps, kSized, "N",
       "steps of the rank's optimizer that a rank takes alone; their sum is the gradient of the "
       "method; --rate counts exchanges per such gradient",
       Shared::unless_guests},
      {"outer-lr", &s.outer_lr, kSized, "X",
       "learning rate of the method's own step; 0: 0.7 if inner-steps is above 1",
       Shared::unless_guests},
      {"outer-momentum", &s.outer_momentum, kSized, "X",
       "Nesterov's momentum of the method's own step", Shared::unless_guests},
      {"compress", &s.rule.compress, kSized, "SPEC",
       "compression of gossip: powergossip:rank=1, random:0.01, top-k:0.01, sign, quantise:4, ..."},
      {"wire", choice(s.rule.wire, {"full", "bf16"}), kSized, "NAME",
       "how pairs send numbers: full, or bf16 (rounded, half the bytes)"},
      {"gamma", &s.rule.gamma, kRuns, "X",
       "step size of gossip; 0: the best one for the graph and its weights"},
      {"weights", &s.weights, kRuns, "SPEC",
       "weights of gossip in rounds: metropolis, lazy or uniform:W"},
      {"normalisation", choice(s.rule.normalisation, {"counts", "own", "x0", "previous"}), kRuns,
       "NAME", "replacement for relays that have not arrived: counts, own, x0 or previous"},
      {"relay-lr", &s.rule.relay_lr, kRuns, "",
       "relaysgd: multiply the learning rate by 1 + the mean delay of the tree"},
      {"missing", choice(s.rule.missing, {"resend", "renormalise", "own", "reuse", "shrink"}),
       kRuns, "NAME",
       "if a message of a round is lost: resend it, or continue by renormalise, own, reuse or "
       "shrink"},
      {"reference-schedule", &s.rule.reference_schedule, kRuns, "",
       "sgp: the order of the peers in a published code"},
  };
}

OptionTable rows_of_the_objective(Options& o) {
  ObjectiveSpec& b = o.settings.objective;
  return {
      {"objective", &b.objective, kSized | kData, "NAME",
       "what is trained: network, quadratic, consensus, matrix, scalar, diagonal or mean"},
      {"decay-norms", &b.decay_norms_and_biases, kRuns, "",
       "apply weight decay to norms and biases too"},
      {"model", &b.model, kSized, "NAME",
       "linear, mlp, cnn-small, cnn-big or resnet18; for text lm-char, lm-word, gpt-char or "
       "gpt:LAYERSxHEADSxWIDTH,ctx=N; or a TorchScript FILE.pt"},
      {"loss", &b.loss, kRuns, "NAME", "cross_entropy or mse; auto: chosen by the targets"},
      {"dataset", &b.dataset, kSized | kData, "NAME",
       "fashion-mnist, mnist, cifar10, optdigits, a9a, w8a; text: tiny-shakespeare, wikitext-2; or "
       "FILE.npz, FILE.safetensors, FILE.csv, text:FILE"},
      {"partition", &b.partition, kRuns | kData, "SPEC",
       "how the data is divided: iid, whole (each rank has all), label (of a play: by speaker), "
       "dirichlet:ALPHA, contiguous, or auto (chosen by the data)"},
      {"validation-split", &b.validation_split, kRuns | kData, "F",
       "fraction of the training samples that the seed sets aside; tests choose the best model on "
       "them"},
      {"batch", &b.batch, kSized, "N", "samples per gradient", Shared::by_default},
      {"window", &b.window, kRuns, "N", "text: characters or words per sample"},
      {"clip", &b.clip, kRuns, "X", "largest norm of a gradient; 0: no limit", Shared::by_default},
      {"precision", &b.precision, kRuns, "NAME",
       "fp32, or bf16: layers compute in bf16, parameters and gradients stay in fp32"},
      {"tf32", &b.tf32, kRuns, "",
       "GPU: fp32 convolutions may round their factors to 10 bits, as in PyTorch"},
      {"flip", &b.flip, kRuns, "", "mirror images at random, if the data set allows it"},
      {"dim", &b.dim, kSized, "N", "number of coordinates of the analytic objectives"},
      {"noise", &b.noise, kRuns, "X",
       "standard deviation of the quadratic's gradient noise, per coordinate"},
      {"zeta2", &b.zeta2, kRuns, "X",
       "how far the optima of the ranks of an analytic objective differ"},
      {"mu", &b.mu, kRuns, "X", "smallest singular value of the quadratics; the largest is 1"},
      {"r0", &b.r0, kRuns, "X", "distance of the optimum from the start"},
      {"rows", &b.rows, kRuns, "N", "rows of the matrix objective"},
      {"columns", &b.columns, kRuns, "N", "columns of the matrix objective"},
      {"entries", &b.entries, kRuns, "NAME", "entries of the matrix objective: gaussian or sines"},
      {"spectrum-decay", &b.spectrum_decay, kRuns, "P", "the matrix has singular values k^-P"},
  };
}

OptionTable rows_of_the_virtual_clock(Options& o) {
  Settings& s = o.settings;
  return {
      {"latency", &s.link.latency_s, kSimulate, "T", "one-way latency of a link, in seconds"},
      {"jitter", &s.link.jitter, kSimulate, "X", "variation of the latency, as a fraction of it"},
      {"transfer", &s.link.transfer_s, kSimulate, "T", "seconds of a payload, after the latency"},
      {"bandwidth", &s.link.bandwidth, kSimulate, "B", "bytes per second of a link; 0: unlimited"},
      {"gradient-seconds", &s.gradient_s, kSimulate, "T", "seconds of a modelled gradient"},
      {"speed-spread", &s.speed_spread, kSimulate, "X",
       "sigma of a gradient's log-normal duration; the mean does not change"},
      {"target", &s.target, kSimulate, "D",
       "stop when the distance of the ranks from their mean is D times its start; 0: never"},
      {"seeds", &o.seeds, kSimulate | kReproduce, "K",
       "number of runs, with seeds from --seed on; of reproduce: 0 is each figure's own number"},
  };
}

OptionTable rows_of_several_processes(Options& o) {
  PeerOptions& p = o.peers;
  return {
      {"listen", &p.listen, kNode | kDoctor, "ADDR",
       "address to listen at: host:port (port 0: any) or unix:/path; default: a unix socket of "
       "this user, or an address that the nodes of --join can reach"},
      {"advertise", &p.advertise, kNode, "ADDR",
       "host:port where other nodes reach this node, if it differs from the address of --listen (a "
       "forwarded port, for instance)"},
      {"join", &p.join, kNode | kDoctor, "ADDR,..",
       "nodes of the run; one live node is enough, and it tells the settings of the run"},
      {"node-name", &p.name, kProcesses, "NAME",
       "name of the node in the run; of launch: NAME.0, NAME.1, ...; default: from host and "
       "process"},
      {"run-name", &p.run, kProcesses, "NAME", "name of the run; nodes of another run are refused"},
      {"key", &p.key, kProcesses | kCtl | kDoctor, "FILE",
       "the run key (grapevine keygen); needed for TCP"},
      {"no-key", &p.no_key, kProcesses | kDoctor, "",
       "TCP on loopback without a key: every user of this machine can stop the run"},
      {"ends-with-input", &p.ends_with_input, kNode, "",
       "leave when standard input ends; launch sets this for nodes on other machines; a line "
       "\"left K\" says that the script of seat K has ended, so that the others do not wait for "
       "it"},
      {"first-rank", &p.first_rank, kNode, "N", "number of its first rank; -1: any free ranks"},
      {"total-ranks", &p.total_ranks, kNode, "N",
       "number of ranks to wait for before the run starts; 0: start at once and grow",
       Shared::by_default},
      {"patience", &p.patience_s, kProcesses, "T",
       "seconds to wait for the others at the start and at the end"},
      {"metrics", &p.metrics, kProcesses, "[HOST:]PORT",
       "serve /metrics for Prometheus and the probes /healthz and /readyz over HTTP; default HOST: "
       "loopback; of launch: port of the first node, the other nodes take the next ports"},
      {"bulk-encryption", &p.bulk_encryption, kProcesses, "", "with a key: encrypt payloads too"},
      {"guests", &o.guests, kProcesses, "N",
       "number of ranks whose steps scripts compute; launch starts as many scripts with the "
       "command behind --"},
      {"restarts", &o.restarts, kLaunch, "N",
       "how often launch restarts a script that ends too early"},
      {"door", &o.door, kNode, "PATH",
       "path of the unix socket for scripts; default: by the node's name"},
      {"nodes", &o.nodes, kLaunch, "N", "number of processes, each with --ranks ranks"},
      {"hosts", &o.hosts, kLaunch, "FILE",
       "start the nodes over ssh; each line has a host and, if it differs, the address where other "
       "nodes reach it"},
      {"address", &o.address, kCtl, "ADDR",
       "name of a node on this machine, or the address of a node"},
      {"verb", &o.verb, kCtl, "VERB", "the request"},
      {"argument", &o.argument, kCtl | kKeygen | kCost, "ARG",
       "of ctl: a graph, a file, or how many events; of keygen: the file to write; of cost: the "
       "folder of a run"},
  };
}

OptionTable rows_of_the_program(Options& o) {
  return {
      {"svg", &o.svg, kTopology, "FILE", "file to draw the graph into"},
      {"job", &o.job, kCompare, "FILE", "what is compared (TOML)"},
      {"name", &o.name, kReproduce, "NAME",
       "the family of claims; all: every family that needs no data set"},
      {"list", &o.list, kReproduce, "", "list all names"},
      {"steps", &o.steps, kReproduce, "N",
       "largest number of rounds of a run, for a quick look; claims then fail; 0: as many as "
       "needed"},
      {"sample", &o.sample, kTrain | kSimulate, "TEXT",
       "language models: at the end the averaged model continues this text; the result is printed"},
      {"config", &o.config, kRuns | kTopology | kData, "FILE", "options from a file (TOML)"},
      {"json", &o.json,
       kRuns | kTopology | kData | kMethods | kCompare | kReproduce | kCtl | kDoctor | kCost, "",
       "print one JSON value on standard output"},
      {"log-level", choice(o.log.level, {"info", "warning", "none"}), kTrain | kSimulate, "NAME",
       "messages on standard error: info, warning (warnings and alarms) or none"},
      {"log-format", choice(o.log.format, {"text", "json"}), kTrain | kSimulate, "NAME",
       "format of these messages: text, or json (one object a line)"},
      {"quiet", &o.log.quiet, kRuns | kCompare | kReproduce, "",
       "no progress and no events on standard error; alarms are still printed"},
  };
}

struct Group {
  OptionTable (*rows)(Options&);
  Shared shared;  // for rows that do not set it
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
