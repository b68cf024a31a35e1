#include "app/options/node_environment.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "actors/transport/sockets.hpp"
#include "kernels/base/read_text.hpp"
#include "kernels/base/spec.hpp"
#include "kernels/memory/hash.hpp"
#include "messages/control.hpp"

namespace grapevine {
namespace {

// Jobs listen in a range of ports. Successive job numbers are far apart in it: the step is the
// golden ratio's part of the range.
constexpr int kSlurmPorts = 20000, kSlurmRange = 10000, kSlurmStep = 6181;
constexpr size_t kContacts = 3;

std::optional<int> whole(const std::string& text) {
  const auto value = number_of<int>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

Result<int> number(const Environment& get, const char* name, int least,
                   int most = std::numeric_limits<int>::max()) {
  const auto text = get(name);
  const auto value = whole(text.value_or(""));
  if (value && *value >= least && *value <= most) return *value;
  return user_error(
      fmt::format("{} is {} in the environment, accepted: a whole number, {} {}", name,
                  text ? "\"" + *text + "\"" : "not set", least,
                  most < std::numeric_limits<int>::max() ? fmt::format("to {}", most) : "or more"));
}

struct Place {
  int process = 0, processes = 0;
};

/// The variables by which a launcher numbers its processes.
struct Numbers {
  const char *process, *processes;
};
constexpr Numbers kTorchrun{"RANK", "WORLD_SIZE"}, kPmi{"PMI_RANK", "PMI_SIZE"},
    kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"};

Result<Place> place_of(const Environment& get, const char* process, const char* processes) {
  const auto all = number(get, processes, 1);
  if (!all) return all.error();
  const auto own = number(get, process, 0);
  if (!own) return own.error();
  if (*own >= *all)
    return user_error(
        fmt::format("{} is \"{}\" in the environment, accepted: less than {}, which is {}", process,
                    *own, processes, *all));
  return Place{*own, *all};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.rfind("127.", 0) == 0;
}

// An identifier of one torchrun, the same after a restart of its processes: the given id, or the
// address of the master.
std::string name_of_torchrun(const Environment& get, const std::string& host) {
  const std::string run = get("TORCHELASTIC_RUN_ID").value_or("none");
  if (run != "none") return "torch-" + run;
  const std::string master = *get("MASTER_ADDR");
  return fmt::format("torch-{}-{}", is_loopback(master) ? host : master, *get("MASTER_PORT"));
}

// A job that is queued again keeps its number, and so do its steps.
std::string name_of_slurm(const Environment& get) {
  return fmt::format("slurm-{}.{}", get("SLURM_JOB_ID").value_or("0"),
                     get("SLURM_STEP_ID").value_or("0"));
}

void take_place(const Place& place, const std::string& starter, int ranks, PeerOptions& peers) {
  const auto ranks_of = [ranks](int64_t processes) {  // whoever has too many is told so later
    return static_cast<int>(std::min<int64_t>(processes * ranks, std::numeric_limits<int>::max()));
  };
  if (peers.name.empty()) peers.name = numbered_name(starter, place.process);
  if (peers.first_rank < 0) peers.first_rank = ranks_of(place.process);
  if (peers.total_ranks == 0) peers.total_ranks = ranks_of(place.processes);
}

std::string process_0_of(const Place& place, const char* one, const char* other) {
  return fmt::format("process 0 of {}, by {} and {} in the environment", place.processes, one,
                     other);
}

Status from_torchrun(const Environment& get, const std::string& host, int ranks,
                     PeerOptions& peers) {
  const auto place = place_of(get, kTorchrun.process, kTorchrun.processes);
  if (!place) return place.error();
  const bool taken = get("TORCHELASTIC_USE_AGENT_STORE") == "True";
  constexpr int kLastPort = 65535;
  const auto port = number(get, "MASTER_PORT", 1, taken ? kLastPort - 1 : kLastPort);
  if (!port) return port.error();
  const std::string master = *get("MASTER_ADDR");
  take_place(*place, name_of_torchrun(get, host), ranks, peers);
  if (place->processes == 1) return Done{};
  const std::string contact = with_port(master, *port + (taken ? 1 : 0));
  if (!check_joined(contact))
    return user_error(fmt::format(
        "MASTER_ADDR is \"{}\" in the environment, accepted: the name or address of one machine, "
        "where the others reach process 0",
        master));
  peers.join_is = process_0_of(*place, "MASTER_ADDR", "MASTER_PORT");
  // The others listen on the address that reaches process 0.
  (place->process == 0 ? peers.listen : peers.join) = contact;
  return Done{};
}

// "2(x3),1": the tasks of each host.
std::vector<int> tasks_by_host(const std::string& text) {
  std::vector<int> tasks;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t times = part.find("(x");
    const auto count = whole(part.substr(0, times));
    const auto hosts = times == part.npos || part.back() != ')'
                           ? std::optional<int>(1)
                           : whole(part.substr(times + 2, part.size() - times - 3));
    if (!count || !hosts || *hosts > 1 << 16) return {};
    tasks.insert(tasks.end(), static_cast<size_t>(*hosts), *count);
    at = end + 1;
  }
  return tasks;
}

constexpr char kTask[] = "SLURM_PROCID", kTasks[] = "SLURM_NTASKS";
constexpr char kHostsOfStep[] = "SLURM_STEP_NODELIST", kHostsOfJob[] = "SLURM_JOB_NODELIST";

// The port of the first process of a job of Slurm; the others have the ports after it.
int first_port_of_job(const Environment& get) {
  const int job = whole(get("SLURM_JOB_ID").value_or("0")).value_or(0);
  return kSlurmPorts + job % kSlurmRange * kSlurmStep % kSlurmRange;
}

Status from_slurm(const Environment& get, const std::string& host, int ranks, PeerOptions& peers) {
  const bool counts_step = get("SLURM_STEP_NUM_TASKS").has_value();  // the job may have more
  const auto place = place_of(get, kTask, counts_step ? "SLURM_STEP_NUM_TASKS" : kTasks);
  if (!place) return place.error();
  if (place->processes == 1) return Done{};
  const char* const variable = get(kHostsOfStep) ? kHostsOfStep : kHostsOfJob;
  const auto hosts = expand_host_list(get(variable).value_or(""), variable);
  if (!hosts) return hosts.error();
  const int first_port = first_port_of_job(get);
  const std::string own = hosts->size() == 1 ? hosts->front() : host;
  peers.listen = fmt::format("{}:{}", own, first_port + place->process);
  // In blocks, the default order of srun; the first process is right in any order.
  const std::vector<int> tasks = tasks_by_host(get("SLURM_STEP_TASKS_PER_NODE").value_or(""));
  int first = 0;
  for (size_t k = 0; k < hosts->size() && k < kContacts; ++k) {
    if (first != place->process)
      peers.join += (peers.join.empty() ? "" : ",") + with_port((*hosts)[k], first_port + first);
    if (k >= tasks.size()) break;
    first += tasks[k];
  }
  peers.join_is = fmt::format("a process of this step, by {} in the environment", variable);
  take_place(*place, name_of_slurm(get), ranks, peers);
  return Done{};
}

// The nearest ancestor that was started without the variable. It sets the variable, also if shells
// are between it and this process. The environment of another user's process cannot be read and
// counts as one without.
pid_t starter_without(const std::string& variable) {
  constexpr int kAtMost = 64;
  constexpr size_t kMostMib = 16;
  const auto text_of = [](const std::string& path) {
    const auto text = read_text(path, kMostMib);
    return text ? *text : "";
  };
  pid_t process = getppid();
  for (int k = 0; k < kAtMost && process > 1; ++k) {
    const std::string folder = fmt::format("/proc/{}/", process);
    if (('\0' + text_of(folder + "environ")).find('\0' + variable + '=') == std::string::npos)
      break;
    const std::string told = text_of(folder + "stat");  // "PID (NAME) STATE PARENT"
    const size_t name = told.rfind(')');
    const auto parent =
        name == told.npos ? 0 : std::atoi(told.c_str() + std::min(name + 3, told.size()));
    if (parent <= 0) break;
    process = parent;
  }
  return process;
}

// mpirun in a job of Slurm with several hosts; process 0 is on the first.
Status from_mpi_in_job(const Environment& get, const Place& place, const std::string& host,
                       int ranks, PeerOptions& peers) {
  const auto hosts = expand_host_list(*get(kHostsOfJob), kHostsOfJob);
  if (!hosts) return hosts.error();
  const int first_port = first_port_of_job(get);
  peers.listen = with_port(host, first_port + place.process);
  if (place.process > 0) peers.join = with_port(hosts->front(), first_port);
  peers.join_is = process_0_of(place, kHostsOfJob, "SLURM_JOB_ID");
  take_place(place, "mpi-" + get("SLURM_JOB_ID").value_or("0"), ranks, peers);
  return Done{};
}

// Open MPI, and launchers with its PMI (MPICH, Intel), tell a process its number, but no address.
// On one host processes find each other's sockets by their names.
Status from_mpi(const Environment& get, const std::string& host, const Numbers& numbers,
                const char* here, const std::string& job, int ranks, PeerOptions& peers) {
  const auto [process, processes] = numbers;
  const auto place = place_of(get, process, processes);
  if (!place) return place.error();
  if (place->processes == 1) return Done{};
  const auto together = get(here) ? number(get, here, 1) : place->processes;
  if (!together) return together.error();
  if (*together != place->processes) {
    if (get(kHostsOfJob)) return from_mpi_in_job(get, *place, host, ranks, peers);
    return user_error(fmt::format(
        "mpirun has started {} processes, {} of them on this host, accepted: all on one host or in "
        "a job of Slurm, or --join with the address of another process; srun and torchrun need no "
        "--join",
        place->processes, *together));
  }
  const std::string starter = "mpi-" + job;
  peers.meets_here = true;
  if (place->process > 0) peers.join = numbered_name(starter, 0);
  peers.join_is = process_0_of(*place, process, processes);
  take_place(*place, starter, ranks, peers);
  return Done{};
}

Error half_of(const Environment& get, const char* variable, const char* missing) {
  return user_error(
      fmt::format("{} is \"{}\" in the environment and {} is not set, accepted: both, "
                  "neither, or --listen or --join",
                  variable, *get(variable), missing));
}

// No launcher was found. A launcher sets all of its variables, so an environment with only some of
// them is refused, except with the numbers of one process of one.
Status check_halves(const Environment& get) {
  for (const auto& [process, processes] : {kTorchrun, kOpenMpi, kPmi}) {
    if (get(process) && !get(processes)) return half_of(get, process, processes);
    if (!get(process) && get(processes).value_or("1") != "1")
      return half_of(get, processes, process);
  }
  if (get(kTorchrun.process)) {
    const auto place = place_of(get, kTorchrun.process, kTorchrun.processes);
    if (!place) return place.error();
    if (place->processes > 1) return half_of(get, kTorchrun.process, "MASTER_ADDR");
  }
  // A shell of salloc has no number, and a program that a batch script itself runs is no task of a
  // step, but has the number 0.
  const bool in_job = get("SLURM_JOB_ID") || get(kHostsOfJob);
  if (!get(kTask) || (*get(kTask) == "0" && in_job)) return Done{};
  if (!get(kTasks)) return half_of(get, kTask, kTasks);
  const auto place = place_of(get, kTask, kTasks);
  if (!place) return place.error();
  return place->processes > 1 ? Status(half_of(get, kTask, "SLURM_STEP_ID")) : Done{};
}

}  // namespace

Environment this_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::string numbered_name(const std::string& starter, int number) {
  const std::string ending = fmt::format(".{}", number);
  const auto can_stand = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  std::string name = starter;
  std::replace_if(name.begin(), name.end(), std::not_fn(can_stand), '-');
  if (name == starter && name.size() + ending.size() <= kNameBytes) return name + ending;
  const std::string hash = fmt::format("-{:08x}", fnv1a(starter) >> 32);
  return name.substr(0, kNameBytes - hash.size() - ending.size()) + hash + ending;
}

Result<std::vector<std::string>> expand_host_list(const std::string& list, const char* variable) {
  const Error refusal =
      user_error(fmt::format("{} is \"{}\" in the environment, accepted: a list of hosts, for "
                             "instance n[1-3,7],m2",
                             variable, list));
  std::vector<std::string> hosts;
  for (size_t at = 0; at < list.size();) {
    const size_t open = list.find('[', at), comma = std::min(list.find(',', at), list.size());
    if (open >= comma) {
      if (comma == at) return refusal;
      hosts.push_back(list.substr(at, comma - at));
      at = comma + 1;
      continue;
    }
    const size_t close = list.find(']', open);
    if (close == list.npos) return refusal;
    const std::string head = list.substr(at, open - at);
    const size_t end = std::min(list.find(',', close), list.size());
    const std::string tail = list.substr(close + 1, end - close - 1);
    for (size_t k = open + 1; k < close;) {
      const size_t stop = std::min(list.find(',', k), close);
      const std::string range = list.substr(k, stop - k);
      const size_t dash = range.find('-');
      const std::string low = range.substr(0, dash);
      const auto from = whole(low);
      const auto to = dash == range.npos ? from : whole(range.substr(dash + 1));
      if (!from || !to || *to < *from || *to - *from > 1 << 16) return refusal;
      for (int n = *from; n <= *to; ++n) {
        std::string digits = std::to_string(n);
        if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
        hosts.push_back(head + digits + tail);
      }
      k = stop + 1;
    }
    at = end + 1;
  }
  if (hosts.empty()) return refusal;
  return hosts;
}

Status find_peers(const Environment& given, const std::string& host, int ranks,
                  PeerOptions& peers) {
  const bool is_placed = !peers.name.empty() && peers.first_rank >= 0 && peers.total_ranks > 0;
  if (!peers.listen.empty() || !peers.join.empty() || is_placed) return Done{};
  const Environment get = [&given](const char* name) {
    auto value = given(name);
    return value && value->empty() ? std::nullopt : value;
  };
  const auto has = [&get](const Numbers& n) { return get(n.process) && get(n.processes); };
  if (get("MASTER_ADDR") && has(kTorchrun)) return from_torchrun(get, host, ranks, peers);
  if (has(kOpenMpi))
    return from_mpi(get, host, kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE",
                    get("PMIX_NAMESPACE").value_or(get("OMPI_MCA_ess_base_jobid").value_or("0")),
                    ranks, peers);
  // In a job of Slurm, MPICH's mpirun starts processes with the variables of its own step, and
  // tells how many are on this host. srun sets only the PMI's variables.
  if (has(kPmi) && (get("MPI_LOCALNRANKS") || !get("SLURM_JOB_ID")))
    return from_mpi(get, host, kPmi, "MPI_LOCALNRANKS",
                    get("PMI_JOBID").value_or(std::to_string(starter_without(kPmi.process))), ranks,
                    peers);
  // A program that a batch script runs directly is no task of a step.
  const bool in_step = get("SLURM_STEP_ID") || get("SLURM_STEP_NODELIST");
  if (get(kTask) && in_step) return from_slurm(get, host, ranks, peers);
  return check_halves(get);
}

}  // namespace grapevine
