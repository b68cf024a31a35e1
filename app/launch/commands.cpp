#include "app/launch/commands.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "actors/transport/sockets.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/options/node_environment.hpp"
#include "app/options/toml_file.hpp"
#include "kernels/base/cores.hpp"
#include "kernels/base/read_text.hpp"
#include "kernels/base/spec.hpp"
#include "kernels/gpu/cuda_device.hpp"

namespace grapevine {
namespace {

// Options that launch sets for each node, or uses itself.
const std::set<std::string>& own_options() {
  static const std::set<std::string> names = {
      "config", "plan",    "out",     "json",      "quiet",      "resume", "ranks",    "nodes",
      "hosts",  "threads", "metrics", "log-level", "log-format", "device", "node-name"};
  return names;
}

std::string for_shell(const std::string& word) {
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Each process on this machine gets its own GPU, as long as there are enough.
std::string device_of(const Options& launch, int number) {
  const std::string& device = launch.settings.device;
  const int gpus = launch.hosts.empty() ? cuda_device_count() : 0;
  const bool any = device == "cuda" || device == "auto";
  return any && gpus > 0 ? fmt::format("cuda:{}", number % gpus) : device;
}

// [host:]port plus `count`. A port of 0, and text without a port, stays.
std::string port_after(const std::string& where, int count) {
  const size_t begin = where.rfind(':') + 1;  // 0 without a colon
  const auto port = number_of<int>(std::string_view(where).substr(begin));
  if (!port || *port == 0) return where;
  return where.substr(0, begin) + std::to_string(*port + count);
}

}  // namespace

std::string name_of_node(const Options& launch, int number) {
  return numbered_name(launch.peers.name, number);
}

int threads_of_each(const Options& launch) {
  if (launch.settings.threads > 0) return launch.settings.threads;
  if (!launch.hosts.empty()) return 0;  // each has its own machine
  return std::max(1, usable_cores() / launch.nodes);
}

Result<std::vector<LaunchHost>> read_hosts(const std::string& path) {
  constexpr size_t kMostMib = 1;
  const auto text = read_text(path, kMostMib);
  if (!text)
    return user_error(fmt::format(
        "hosts is \"{}\", which cannot be read: {}, accepted: a file with one host per line", path,
        text.error().message));
  std::istringstream file(*text);
  std::vector<LaunchHost> hosts;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    LaunchHost host;
    std::string more;
    if (!(words >> host.ssh)) continue;
    if (!(words >> host.address)) host.address = host.ssh.substr(host.ssh.find('@') + 1);
    const bool brackets = host.address.find(':') != host.address.npos && host.address[0] != '[';
    if (brackets) host.address = "[" + host.address + "]";
    if (words >> more || host.ssh.front() == '-' || !is_host_of_others(host.address))
      return user_error(
          fmt::format("{}:{}: \"{}\", accepted: a host, or a host and the address (without "
                      "a port) where the other nodes reach it",
                      path, number, line));
    hosts.push_back(std::move(host));
  }
  if (hosts.empty())
    return user_error(
        fmt::format("hosts is \"{}\", which names no host, accepted: one host per line", path));
  return hosts;
}

std::vector<std::string> node_arguments(const Options& launch, const LaunchedNode& node) {
  Options given = launch;
  const int ranks = launch.settings.local_ranks;
  given.settings.ranks = ranks;
  Options usual = default_options(kNode, launch.settings.objective.objective);
  std::vector<std::string> words = {"node"};
  const OptionTable defaults = option_table(usual);
  for (const Option& option : option_table(given)) {
    if (!(option.commands & kNode) || !(option.commands & kLaunch)) continue;
    if (own_options().count(option.name) != 0) continue;
    const std::string text = option_text(option), name = option.name;
    const bool usually = text == option_text(*find_option(defaults, name));
    if (usually && name != "objective") continue;  // the other defaults follow from it
    if (*option.value != '\0')
      words.push_back(fmt::format("--{}={}", name, text));
    else
      words.push_back((text == "true" ? "--" : "--no-") + name);
  }
  const auto add = [&](const std::string& name, const std::string& value) {
    words.push_back(fmt::format("--{}={}", name, value));
  };
  add("ranks", std::to_string(ranks));
  add("threads", std::to_string(threads_of_each(launch)));
  if (launch.settings.device != "cpu") add("device", device_of(launch, node.number));
  add("node-name", name_of_node(launch, node.number));
  add("first-rank", std::to_string(node.number * ranks));
  add("total-ranks", std::to_string(launch.nodes * ranks));
  if (!node.listen.empty()) add("listen", node.listen);
  std::string join;
  for (const std::string& address : node.join)
    join += (join.empty() ? "" : ",") + address;
  if (!join.empty()) add("join", join);
  if (!node.plan.empty()) add("plan", node.plan);
  if (!launch.peers.metrics.empty())
    add("metrics", port_after(launch.peers.metrics, launch.hosts.empty() ? node.number : 0));
  // A process that replaces a dead one resumes in its folder.
  const bool goes_on = node.starts > 1 && !launch.out.empty();
  if (!launch.resume.empty() && !goes_on) add("resume", resumed_by_node(launch, node.number));
  if (!launch.out.empty()) add("out", fmt::format("{}/node-{}", launch.out, node.number));
  words.insert(words.end(), {"--json", "--quiet"});
  return words;
}

std::vector<std::string> over_ssh(const LaunchHost& host, const std::string& program,
                                  const std::vector<std::string>& arguments) {
  std::string command = "exec " + for_shell(program);
  for (const std::string& word : arguments)
    command += " " + for_shell(word);
  return {"/usr/bin/env", "ssh", "-o", "BatchMode=yes", "--", host.ssh, command};
}

std::string plan_for_nodes(const std::string& text) {
  auto plan = parse_toml("plan", text);
  GV_CHECK(static_cast<bool>(plan));
  toml::array* faults = (*plan)["fault"].as_array();
  if (faults == nullptr) return {};
  const std::set<std::string> ours = {"pause", "kill", "restart", "reconfigure"};
  for (size_t k = faults->size(); k-- > 0;) {
    const auto kind = (*faults)[k].as_table()->get("kind")->value<std::string>();
    if (ours.count(*kind) != 0) faults->erase(faults->begin() + static_cast<ptrdiff_t>(k));
  }
  if (faults->empty()) return {};
  std::ostringstream out;
  out << *plan << "\n";
  return out.str();
}

}  // namespace grapevine
