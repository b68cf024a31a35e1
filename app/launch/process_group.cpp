#include "app/launch/process_group.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "app/run/interrupts.hpp"
#include "app/system/ask_node.hpp"

namespace grapevine {
namespace {

constexpr int kPoll_ms = 50;
constexpr size_t kContacts = 8;
constexpr char kTask[] = "task: ", kListening[] = "listening on ";  // said in this order

std::string own_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "grapevine";
}

// Behind the words, of the first whole line that has them; empty: there is none.
std::string rest_of_line(const std::string& text, const std::string& words) {
  const size_t begin = text.find(words), end = text.find('\n', begin);
  if (begin == text.npos || end == text.npos) return {};
  return text.substr(begin + words.size(), end - begin - words.size());
}

}  // namespace

ProcessGroup::ProcessGroup(const Options& launch, std::vector<LaunchHost> hosts, std::string plan)
    : launch_(launch),
      hosts_(std::move(hosts)),
      plan_(std::move(plan)),
      nodes_(static_cast<size_t>(launch.nodes)) {}

Status ProcessGroup::start() {
  if (Status first = start(0, {}); !first) return first;
  while (!listens(0) && !ended(0) && interrupts() == 0)
    wait(kPoll_ms);
  if (ended(0))
    return Error{at(0).child->status() == 2 ? Error::Kind::user : Error::Kind::world, complaint(0)};
  for (int k = 1; k < launch_.nodes; ++k)
    if (Status more = start(k, {address(0)}); !more) return more;
  return Done{};
}

Status ProcessGroup::start(int number, std::vector<std::string> join) {
  const auto place = static_cast<size_t>(number);
  LaunchedNode node{number, "", std::move(join), plan_, nodes_[place].starts + 1};
  if (!hosts_.empty()) node.listen = hosts_[place].address + ":0";
  std::vector<std::string> words = node_arguments(launch_, node);
  if (hosts_.empty()) {
    words.insert(words.begin(), "/proc/self/exe");
  } else {
    words.push_back("--ends-with-input");  // signals do not reach another machine
    words = over_ssh(hosts_[place], own_path(), words);
  }
  auto child = ChildProcess::start(words);
  if (!child) return child.error();
  nodes_[place] = Node{std::move(*child), {}, {}, false, false, node.starts};
  return Done{};
}

void ProcessGroup::wait(int timeout_ms) {
  std::vector<ChildProcess*> children;
  for (Node& node : nodes_)
    if (node.child && !node.child->ended()) children.push_back(node.child.get());
  ChildProcess::wait_any(children, timeout_ms);
  for (Node& node : nodes_) {
    if (!node.child || !node.address.empty()) continue;
    node.address = rest_of_line(node.child->err(), kListening);
    node.task = rest_of_line(node.child->err(), kTask);
  }
}

bool ProcessGroup::ended(int node) const { return at(node).child && at(node).child->ended(); }

bool ProcessGroup::ended() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const Node& n) { return !n.child || n.child->ended(); });
}

Json ProcessGroup::result(int node) const { return json_of_text<Json>(at(node).child->out()); }

bool ProcessGroup::died(int node) const {
  const Node& n = at(node);
  return n.child && n.child->ended() && n.child->killed_by() > 0 && !n.killed;
}

bool ProcessGroup::can_start() const { return !contacts().empty() || ended(); }

std::string ProcessGroup::complaint(int node) const {
  if (const int signal = at(node).child->killed_by(); signal > 0)
    return fmt::format("{} was killed by signal {}{}", name(node), signal,
                       signal == SIGKILL ? ", as the system does when memory runs out" : "");
  std::string err = at(node).child->err();
  while (!err.empty() && err.back() == '\n')
    err.pop_back();
  std::string line = err.substr(err.rfind('\n') + 1);
  const std::string prefix = "grapevine: ";
  if (line.rfind(prefix, 0) == 0) line.erase(0, prefix.size());
  return fmt::format("{}: {}", name(node), (line.empty() ? "it ended" : line));
}

void ProcessGroup::kill(int node) {
  Node& n = nodes_[static_cast<size_t>(node)];
  if (!n.child || n.child->ended()) return;
  n.killed = true;
  n.child->signal(SIGKILL);
}

void ProcessGroup::pause(int node, bool on) {
  Node& n = nodes_[static_cast<size_t>(node)];
  if (!n.child || n.child->ended()) return;
  n.paused = on;
  n.child->signal(on ? SIGSTOP : SIGCONT);
}

std::vector<std::string> ProcessGroup::contacts() const {
  std::vector<std::string> addresses;
  for (int k = 0; k < launch_.nodes && addresses.size() < kContacts; ++k)
    if (listens(k) && !at(k).paused && !at(k).killed) addresses.push_back(address(k));
  return addresses;
}

Status ProcessGroup::restart(int node) {
  nodes_[static_cast<size_t>(node)].child.reset();  // kills it if it is running
  nodes_[static_cast<size_t>(node)].address.clear();
  return start(node, contacts());
}

void ProcessGroup::interrupt() {
  for (int k = 0; k < launch_.nodes; ++k)
    if (at(k).paused) pause(k, false);
  for (int k = 0; k < launch_.nodes; ++k) {
    ChildProcess* child = nodes_[static_cast<size_t>(k)].child.get();
    if (child == nullptr || child->ended()) continue;
    const int signal = terminated() ? SIGTERM : SIGINT;
    if (hosts_.empty()) {  // all know it before one learns of another's end
      child->signal(signal, kToAllNodes);
      continue;
    }
    const bool told =
        listens(k) && ask_node(address(k), launch_.peers.key, {ConsoleVerb::stop, {}}, 1);
    if (!told)
      child->signal(signal);
    else if (terminated())
      child->end_input();  // a node on another machine treats this like SIGTERM
  }
}

// A node that does not listen yet may not handle the signal, and has nothing to save.
void ProcessGroup::save() {
  constexpr double kAnswer_s = 0.1;  // the checkpoint is written even without an answer
  for (int k = 0; k < launch_.nodes; ++k) {
    if (!listens(k)) continue;
    if (hosts_.empty())
      at(k).child->signal(SIGUSR1);
    else
      static_cast<void>(
          ask_node(address(k), launch_.peers.key, {ConsoleVerb::checkpoint, {}}, 1, kAnswer_s));
  }
}

Json ProcessGroup::ask(int node) const {
  const auto answer = ask_node(address(node), launch_.peers.key, {ConsoleVerb::status, {}}, 0.5);
  return answer ? json_of_text<Json>(*answer) : Json();
}

}  // namespace grapevine
