#include "tests/membership/world.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "kernels/base/check.hpp"
#include "messages/control_codec.hpp"

namespace grapevine::test {

namespace {

bool later(const auto& a, const auto& b) {
  return a.at != b.at ? a.at > b.at : a.serial > b.serial;
}

// Of "n10003" and "h:10003" alike; -1 where there is no such node.
int node_of(const std::string& text, size_t digits_at, int count) {
  if (text.size() != digits_at + 5) return -1;
  const int node = std::atoi(text.c_str() + digits_at) - 10000;
  return node < count ? node : -1;
}

}  // namespace

std::string WorldSettings::name() const {
  std::ostringstream out;
  out << nodes << " nodes, seed " << seed << ", loss " << loss << ", latency " << latency_s;
  return out.str();
}

std::string World::address(int node) { return "h:" + std::to_string(10000 + node); }
std::string World::name(int node) { return "n" + std::to_string(10000 + node); }

World::World(const WorldSettings& settings)
    : settings_(settings), random_(settings.seed, 0, Purpose::test) {
  for (int i = 0; i < settings.nodes; ++i) {
    add_node(i == 0 ? std::vector<std::string>{} : std::vector{address(0)});
  }
  if (settings.acquainted) acquaint();
}

World::~World() = default;

Member World::member(int node) const {
  Member m;
  m.node = name(node);
  m.address = address(node);
  m.ranks = kRanks;
  m.first_rank = kAnyRank;
  m.life = nodes_[index(node)].process;
  return m;
}

void World::add_node(const std::vector<std::string>& join) {
  const int node = count();
  Node& n = nodes_.emplace_back();
  for (Node& other : nodes_)
    other.links.resize(nodes_.size());
  MembershipOptions options;
  options.seed = settings_.seed;
  options.join = join;
  options.topology = settings_.topology;
  options.signing = signing_of(key(node));
  Member self = member(node);
  if (settings_.acquainted) self.first_rank = kRanks * static_cast<uint32_t>(node);
  n.membership = std::make_unique<Membership>(self, options);
  n.timer_queued = n.timer_at = std::numeric_limits<double>::infinity();
  if (settings_.acquainted) return;
  post(now_, node, [this](Membership& m, MembershipEffects& out) { m.start(now_, out); });
}

void World::acquaint() {
  MembershipPacket all;
  all.kind = MembershipPacket::Kind::sync_reply;
  for (int i = 0; i < count(); ++i)
    all.news.push_back(at(i).self());
  for (int i = 0; i < count(); ++i) {
    MembershipEffects out;
    nodes_[index(i)].membership->start(0, out);
    nodes_[index(i)].membership->packet(0, name(i == 0), all, out);
  }
  const auto link = [this](int i, int j) {
    if (nodes_[index(i)].links[index(j)]) return;
    nodes_[index(i)].links[index(j)] = nodes_[index(j)].links[index(i)] = true;
    MembershipEffects out;
    nodes_[index(i)].membership->link_up(0, name(j), j == 0 ? address(0) : "", out);
    nodes_[index(j)].membership->link_up(0, name(i), i == 0 ? address(0) : "", out);
  };
  for (int i = 0; i < count(); ++i)
    for (int j = 0; j < count(); ++j)
      if (i != j && (j == 0 || at(i).needs_link(0, name(j)))) link(i, j);
  for (int i = 0; i < count(); ++i) {
    MembershipEffects out;
    nodes_[index(i)].membership->timer(0, out);
    carry_out(i, out);
  }
}

// --- the queue

void World::post(double at, int to, std::function<void(Membership&, MembershipEffects&)> what,
                 bool timer) {
  push({at, ++serial_, to, nodes_[index(to)].process, timer, false, std::move(what)});
}

void World::push(Event event) {
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(), [](auto& a, auto& b) { return later(a, b); });
}

void World::run(double until_s) {
  while (!queue_.empty() && queue_.front().at <= until_s && complaint_.empty())
    step();
  now_ = std::max(now_, until_s);
}

double World::run_until(const std::function<bool()>& done, double limit_s) {
  const double begin_s = now_;
  while (now_ <= begin_s + limit_s && complaint_.empty()) {
    if (done()) return now_ - begin_s;
    run(now_ + 0.01);
  }
  return std::numeric_limits<double>::infinity();
}

void World::step() {
  std::pop_heap(queue_.begin(), queue_.end(), [](auto& a, auto& b) { return later(a, b); });
  Event event = std::move(queue_.back());
  queue_.pop_back();
  now_ = std::max(now_, event.at);
  deliver(event);
}

void World::deliver(Event& event) {
  Node& n = nodes_[index(event.to)];
  if (!n.alive || event.process != n.process) return;
  if (n.stopped) {
    const int to = event.to;
    n.waiting.push_back([this, to, what = std::move(event.what), timer = event.timer]() mutable {
      post(now_, to, std::move(what), timer);
    });
    return;
  }
  if (n.slow_s > 0 && !event.served && (n.late_timers || !event.timer)) {
    // It is given the processor now and then, and serves all that has come meanwhile.
    while (n.awake_at < now_)
      n.awake_at = std::max(n.awake_at + n.slow_s * random_.uniform(), now_ - n.slow_s);
    event.served = true;
    event.at = n.awake_at;
    return push(std::move(event));
  }
  if (event.timer) {
    n.timer_queued = std::numeric_limits<double>::infinity();
    if (n.timer_at > now_) {  // it was put off
      if (n.timer_at < n.timer_queued) {
        n.timer_queued = n.timer_at;
        post(n.timer_at, event.to, std::move(event.what), true);
      }
      return;
    }
  }
  act(event.to, event.what);
}

void World::act(int node, const std::function<void(Membership&, MembershipEffects&)>& f) {
  Node& n = nodes_[index(node)];
  if (!n.alive) return;
  MembershipEffects out;
  f(*n.membership, out);
  carry_out(node, out);
}

void World::carry_out(int node, MembershipEffects& out) {
  Node& n = nodes_[index(node)];
  watch(node, out);
  for (auto& [to_name, packet] : out.sends) {
    const int to = node_of(to_name, 1, count());
    if (to < 0) continue;  // a liar's invention
    const size_t size = wire_bytes(packet);
    packets_ += 1;
    bytes_ += static_cast<double>(size);
    if (size > kControlBytes) complain("a packet of " + std::to_string(size) + " bytes");
    if (const Status fits = validate(packet); !fits) complain(fits.error().message);
    if (!reachable(node, to) || random_.uniform() < settings_.loss) continue;
    if (!n.links[index(to)]) {                 // its end broke unseen; now the other host says so
      if (n.goodbyes.count(to) > 0) continue;  // it is about to hear so
      post(now_ + delay() + delay(), node,
           [this, gone = to_name](Membership& m, MembershipEffects& o) {
             m.link_down(now_, gone, o);
           });
      continue;
    }
    post(now_ + delay(), to,
         [this, from = name(node), p = std::move(packet)](Membership& m, MembershipEffects& o) {
           m.packet(now_, from, p, o);
         });
  }
  for (const std::string& address : out.dials)
    dial(node, address);
  for (const std::string& other : out.closes)
    if (const int to = node_of(other, 1, count()); to >= 0) unlink(node, to, true);
  n.timer_at = out.timer_at;
  if (n.timer_at < n.timer_queued && n.timer_at < std::numeric_limits<double>::infinity()) {
    n.timer_queued = n.timer_at;
    post(
        n.timer_at, node, [this](Membership& m, MembershipEffects& o) { m.timer(now_, o); }, true);
  }
}

void World::watch(int node, const MembershipEffects& out) {
  Node& n = nodes_[index(node)];
  const auto counter = static_cast<uint32_t>(n.membership->epoch() >> 32);
  if (counter < n.counter) complain("the epoch of " + name(node) + " went back");
  n.counter = counter;
  if (out.name_taken) complain(name(node) + " is to end: its name was taken");
  for (const auto& [name, id] : out.owners) {
    n.owners[name] = id;
    const int other = node_of(name, 1, count());
    if (other >= 0 && id != 0 && has_name_of_other(other, node)) unlink(node, other, true);
  }
  for (const std::string& line : out.lines)
    n.accusations += line.find("is suspected") != std::string::npos;
  for (const std::string& line : out.lines) {
    const size_t at = line.find(" is taken for dead");
    if (at == std::string::npos) continue;
    const int who = node_of(line.substr(0, line.find(' ')), 1, count());
    if (who < 0) continue;
    false_deaths_ += running(who) && !nodes_[index(who)].has_left && reachable(node, who) &&
                     reachable(who, node);
  }
}

void World::complain(const std::string& what) {
  if (complaint_.empty()) complaint_ = what + " at " + std::to_string(now_) + " s";
}

// --- links

bool World::reachable(int from, int to) const {
  return nodes_[index(from)].side == nodes_[index(to)].side && cuts_.count({from, to}) == 0;
}

// By its links, as the membership has told them.
bool World::has_name_of_other(int node, int as_seen_by) const {
  const auto& owners = nodes_[index(as_seen_by)].owners;
  const auto owner = owners.find(name(node));
  return owner != owners.end() && owner->second != 0 &&
         owner->second != id_of(key(node).public_key());
}

void World::dial(int from, const std::string& address) {
  const int to = node_of(address, 2, count());
  if (to < 0 || !reachable(from, to) || !reachable(to, from)) return;
  const double at = now_ + delay() + delay();
  const Node& there = nodes_[index(to)];
  if (!there.alive) {
    return post(at, from, [this, address](Membership& m, MembershipEffects& out) {
      m.refused(now_, address, out);
    });
  }
  if (there.stopped) return;  // the kernel accepts, and no Hello comes
  post(at, from, [this, from, to, address](Membership& m, MembershipEffects& out) {
    Node& here = nodes_[index(from)];
    Node& other = nodes_[index(to)];
    if (!other.alive || other.stopped || !reachable(from, to) || !reachable(to, from)) return;
    if (from != to && has_name_of_other(from, to)) {
      return post(now_, to, [this, from](Membership& o, MembershipEffects& effects) {
        o.suspect(now_, name(from), effects);
      });
    }
    if (from != to && has_name_of_other(to, from)) return m.refused(now_, address, out);
    const bool was_linked = from == to || here.links[index(to)];
    here.links[index(to)] = other.links[index(from)] = from != to;
    here.goodbyes.erase(to);
    other.goodbyes.erase(from);
    m.link_up(now_, name(to), address, out);
    if (was_linked) return;
    post(now_, to, [this, from](Membership& o, MembershipEffects& effects) {
      o.link_up(now_, name(from), "", effects);
    });
  });
}

void World::unlink(int a, int b, bool goodbye) {
  if (!nodes_[index(a)].links[index(b)]) return;
  nodes_[index(a)].links[index(b)] = nodes_[index(b)].links[index(a)] = false;
  for (const auto& [here, there] : {std::pair(a, b), std::pair(b, a)}) {
    if (!nodes_[index(here)].alive || !reachable(there, here)) continue;
    if (goodbye) nodes_[index(here)].goodbyes.insert(there);
    post(now_ + delay(), here,
         [this, gone = name(there), goodbye](Membership& m, MembershipEffects& out) {
           m.link_down(now_, gone, out, goodbye);
         });
  }
}

void World::break_link(int a, int b) { unlink(a, b); }

}  // namespace grapevine::test
