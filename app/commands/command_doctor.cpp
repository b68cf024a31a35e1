// grapevine doctor: whether this machine can run a node, with a line for each requirement.
#include <fmt/core.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>

#include "actors/run/gpu.hpp"
#include "actors/run/state_sizes.hpp"
#include "actors/transport/console.hpp"
#include "actors/transport/local_socket.hpp"
#include "app/commands/commands.hpp"
#include "app/output/device_report.hpp"
#include "app/run/execute.hpp"
#include "app/system/ask_node.hpp"
#include "app/system/words.hpp"
#include "kernels/base/memory_left.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "messages/control.hpp"
#include "models/network_loader.hpp"

namespace grapevine {
namespace {

constexpr rlim_t kLeastFiles = 1024;
constexpr double kLeastDisk = 1e9, kLeastMemory = 1e9;

/// Prints each check at once, or all together as JSON.
class Doctor {
 public:
  explicit Doctor(bool json) : json_(json) {}

  void well(const std::string& what, const std::string& text) { judge(true, what, text); }
  void ill(const std::string& what, const std::string& text) { judge(false, what, text); }
  void judge(bool good, const std::string& what, const std::string& text) {
    healthy_ = healthy_ && good;
    checks_.push_back({{"what", what}, {"ok", good}, {"text", text}});
    if (!json_)
      std::printf("%-4s  %-11s %s\n", good ? "ok" : "FAIL", what.c_str(), printable(text).c_str());
  }

  void devices(const DeviceSurvey& survey) {
    for (const DoctorLine& line : lines_of(survey))
      judge(line.well, line.what, line.text);
    devices_ = json_of(survey);
  }

  /// The exit status.
  int conclude() const {
    if (json_) print_json({{"healthy", healthy_}, {"checks", checks_}, {"devices", devices_}});
    return healthy_ ? 0 : 1;
  }

 private:
  const bool json_;
  bool healthy_ = true;
  Json checks_ = Json::array(), devices_;
};

void check_cores(Doctor& doctor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const int cores = known ? CPU_COUNT(&set) : 1;
  std::string text = std::to_string(cores);
  if (const auto limit = group_core_limit())
    text += ", of which this control group may use " + as_short(*limit);
  doctor.well("cores", text);
}

void check_memory(Doctor& doctor) {
  const double all =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto limit = group_memory_limit();
  const auto left = static_cast<double>(memory_left());
  doctor.judge(
      left >= kLeastMemory, "memory",
      fmt::format(
          "{}{}, {} left{}", as_bytes(all),
          limit ? ", this control group's limit is " + as_bytes(static_cast<double>(*limit)) : "",
          as_bytes(left), left >= kLeastMemory ? "" : ", accepted: " + as_bytes(kLeastMemory)));
}

void check_files(Doctor& doctor) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = fmt::format("{} at most", limit.rlim_max);
  doctor.judge(limit.rlim_max >= kLeastFiles, "open files",
               limit.rlim_max >= kLeastFiles
                   ? text
                   : fmt::format("{}, accepted: {} or more (ulimit -n)", text, kLeastFiles));
}

// Why no connection to it is possible; empty: there is none.
std::string reach(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (address.rfind("unix:", 0) == 0 || colon == address.npos) return {};
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string plain = host.front() == '[' ? host.substr(1, host.size() - 2) : host;
  if (getaddrinfo(plain.c_str(), port.c_str(), &hints, &found) != 0)
    return address + " does not resolve here";
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const bool reached = connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  const std::string why = std::strerror(errno);
  close(fd);
  freeaddrinfo(found);
  return reached ? std::string() : fmt::format("{} cannot be reached: {}", address, why);
}

void check_port(Doctor& doctor, const Options& o) {
  const bool key = !o.peers.key.empty(), tcp = key || o.peers.no_key;
  const std::string wanted = o.peers.listen.empty() && tcp ? "127.0.0.1:0" : o.peers.listen;
  const Reach reach_of = key ? Reach::network : tcp ? Reach::machine : Reach::user;
  const auto listening = wanted.empty() ? listen_locally("doctor") : listen_on(wanted, reach_of);
  if (!listening) return doctor.ill("port", listening.error().message);
  const std::string address = reachable(listening->address);
  const std::string reached = reach(address);
  close(listening->fd);
  if (!listening->tcp) remove_socket(address.substr(sizeof "unix:" - 1));
  doctor.judge(reached.empty(), "port",
               reached.empty() ? address + " is free and can be reached" : reached);
}

std::optional<RunKey> check_key(Doctor& doctor, const Options& o) {
  if (o.peers.key.empty()) {
    doctor.well("run key", "none: processes of this user on this machine");
    return {};
  }
  const auto key = RunKey::read(o.peers.key);
  if (!key) return doctor.ill("run key", key.error().message), std::nullopt;
  doctor.well("run key", o.peers.key);
  return *key;
}

void check_peers(Doctor& doctor, const Options& o, const std::optional<RunKey>& key) {
  std::istringstream addresses(o.peers.join);
  for (std::string address; std::getline(addresses, address, ',');) {
    const auto found = address_of_node(address);
    const Status fits = found ? check_joined(*found) : found.error();
    if (!fits) {
      doctor.ill("peer", fits.error().message);
      continue;
    }
    const auto console = Console::open(*found, key);
    if (!console)
      doctor.ill("peer", console.error().message);
    else
      doctor.well("peer", fmt::format("{} is {}, protocol version {}", address,
                                      (*console)->node().node, kConsoleVersion));
  }
}

void check_networks(Doctor& doctor, const Options& o) {
  const auto module = open_network_module();
  const std::string threads =
      o.settings.threads > 0 ? std::to_string(o.settings.threads) : std::string("one per core");
  doctor.judge(static_cast<bool>(module), "LibTorch",
               module ? fmt::format("{}, loaded by {}, threads: {}", GRAPEVINE_TORCH_VERSION,
                                    *module, threads)
                      : module.error().message);
}

// The GPU memory that the job's ranks need, if there is a GPU or one is asked for.
void check_job(Doctor& doctor, const Options& o) {
  const auto number = gpu_named(o.settings.device);
  if (!number) return doctor.ill("device", number.error().message);
  if (!*number && cuda_device_count() == 0) return;
  const auto objective = make_objective_of(o.settings);
  if (!objective) return doctor.ill("job", objective.error().message);
  const DeviceSizes sizes = device_sizes(o.settings, **objective);
  const std::string need =
      fmt::format("{} ranks of {} need {} on a GPU, beside what LibTorch takes", o.settings.ranks,
                  (*objective)->description(), sizes.text());
  const auto facts = cuda_facts(number->value_or(0));
  const bool fits = facts && sizes.memory_bytes() + sizes.gradient_bytes() <= facts->free_bytes;
  const std::string there = facts ? as_bytes(static_cast<double>(facts->free_bytes)) + " are free"
                                  : facts.error().message;
  doctor.judge(fits || !*number, "job", need + "; " + there);
}

void check_disk(Doctor& doctor, const Options& o) {
  struct statvfs about {};
  const std::string where = o.out.empty() ? "." : o.out;
  if (statvfs(where.c_str(), &about) != 0) return doctor.ill("disk", where + " cannot be examined");
  const double left = static_cast<double>(about.f_bavail) * static_cast<double>(about.f_frsize);
  const bool writable = access(where.c_str(), W_OK) == 0;
  doctor.judge(left >= kLeastDisk && writable, "disk",
               fmt::format("{} free{}", as_bytes(left),
                           (writable ? "" : fmt::format(", but {} is not writable", where))));
}

}  // namespace

Result<int> doctor(Options o) {
  Doctor doctor(o.json);
  check_cores(doctor);
  check_memory(doctor);
  check_files(doctor);
  check_port(doctor, o);
  const auto key = check_key(doctor, o);
  check_peers(doctor, o, key);
  check_networks(doctor, o);
  doctor.devices(survey_devices());
  check_job(doctor, o);
  check_disk(doctor, o);
  return doctor.conclude();
}

}  // namespace grapevine
