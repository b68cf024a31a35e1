// The begin and end of links in a SimulatedNetwork, and its consoles.
#include <algorithm>
#include <utility>

#include "tests/cluster/simulated_links.hpp"

namespace grapevine::test {

namespace {

constexpr double kConnect_s = 2;
constexpr double kSynAgain_s = 1;

}  // namespace

// --- dials

void SimulatedNetwork::dial(int p, const std::string& address) {
  at(now(), [this, p, address] { attempt(p, address, 0); });
}

void SimulatedNetwork::fail(int p, const std::string& address, const std::string& reason,
                            bool refused) {
  tell(p, [this, p, address, reason, refused] {
    process(p).events.dial_failed(address, reason, refused);
  });
}

void SimulatedNetwork::attempt(int p, const std::string& address, double waited_s) {
  if (!process(p).alive) return;
  for (const auto& [node, id] : process(p).standing) {
    const Link& l = link(id);
    if (process(l.ends[1 - side_of(l, p)]).address == address)
      return fail(p, address, "a link with " + node + " stands already", false);
  }
  const auto found = at_address_.find(address);
  const int there = found == at_address_.end() ? -1 : found->second;
  int listener = -1;  // it, if it lives
  if (there >= 0 && process(there).alive) listener = there;
  if (there >= 0 && (blocked(p, there) || blocked(there, p))) {
    if (waited_s >= kConnect_s) return fail(p, address, "no connection in time", false);
    return at(now() + kSynAgain_s,
              [this, p, address, waited_s] { attempt(p, address, waited_s + kSynAgain_s); });
  }
  const double answer_at = now() + delay() + delay();
  if (listener < 0 || listener == p) {
    const std::string reason = listener < 0 ? "connection refused" : "its own name";
    return at(answer_at, [=, this] { fail(p, address, reason, listener < 0); });
  }
  const auto open = std::make_shared<bool>(true);
  at(answer_at, [=, this] {
    tell(listener, [=, this] {
      if (std::exchange(*open, false)) agree(p, listener, address);
    });
  });
  at(answer_at + kConnect_s, [=, this] {
    if (std::exchange(*open, false)) fail(p, address, "no agreement in time", false);
  });
}

/// Whether the higher name knows of a link with the lower one that stands or is offered.
bool SimulatedNetwork::stands(int high, int low) {
  if (process(high).standing.count(name(low)) > 0) return true;
  const auto between = links_between_.find({low, high});
  if (between == links_between_.end()) return false;
  return std::any_of(between->second.begin(), between->second.end(),
                     [&](int id) { return link(id).up[0] && !link(id).was_up[1]; });
}

void SimulatedNetwork::agree(int connector, int listener, const std::string& address) {
  if (!process(connector).alive) return;
  int low = connector, high = listener;
  if (name(high) < name(low)) std::swap(low, high);
  if (blocked(low, high) || blocked(high, low)) {
    return at(now() + kConnect_s,
              [=, this] { fail(connector, address, "no agreement in time", false); });
  }
  if (stands(high, low)) return fail(connector, address, "a link stands already", false);
  for (const auto& [here, other] : {std::pair(connector, listener), std::pair(listener, connector)})
    if (has_name_of_other(other, here)) {
      tell(here,
           [this, here = here, other = other] { process(here).events.contested(name(other)); });
      return fail(connector, address, kNameHeld, here == connector);
    }
  tell(low, [=, this] {
    if (!process(high).alive || stands(high, low)) return;
    const int id = static_cast<int>(links_.size());
    links_.push_back(std::make_unique<Link>());
    link(id).ends[0] = low;
    link(id).ends[1] = high;
    links_between_[{low, high}].push_back(id);
    process(low).links.push_back(id);
    process(high).links.push_back(id);
    stand(id, 0);
    push(id, 0, {Item::Kind::agree, {}, {}, {}, {}});
  });
}

void SimulatedNetwork::know(int p, const std::string& node, uint64_t id) {
  if (!process(p).alive) return;
  process(p).owners[node] = id;
  const auto found = process(p).standing.find(node);
  if (id == 0 || found == process(p).standing.end()) return;
  const Link& l = link(found->second);
  if (has_name_of_other(l.ends[1 - side_of(l, p)], p))
    close(p, node, "its name is another process's");
}

bool SimulatedNetwork::has_name_of_other(int p, int as_seen_by) {
  const auto& owners = process(as_seen_by).owners;
  const auto owner = owners.find(name(p));
  return owner != owners.end() && owner->second != 0 &&
         owner->second != id_of(process(p).options.self.key);
}

void SimulatedNetwork::stand(int id, int side) {
  Link& l = link(id);
  const int here = l.ends[side], other = l.ends[1 - side];
  Process& p = process(here);
  if (const auto old = p.standing.find(name(other)); old != p.standing.end())
    end(old->second, side_of(link(old->second), here), "replaced by a newer connection");
  l.up[side] = l.was_up[side] = true;
  p.standing[name(other)] = id;
  p.events.up(process(other).options.self);
}

// --- processes

void SimulatedNetwork::kill(int p) {
  vanish(p, "connection reset", [this](Link& l, int side) {
    const bool cut_short = random_.below(2) == 0;
    for (Stream* s : {&l.control[side], &l.payloads[side]})
      if (cut_short) s->lost_after = random_.uniform(now(), std::max(now(), s->last_at));
  });
  for (size_t id = 0; id < lines_.size(); ++id)
    for (const int side : {0, 1})
      if (line(id).ends[side] == p) let_go(id, side);
}

void SimulatedNetwork::leave(int p) { vanish(p, kSaidGoodbye, {}); }

void SimulatedNetwork::vanish(int p, const std::string& reason,
                              const std::function<void(Link&, int side)>& break_off) {
  Process& gone = process(p);
  if (!gone.alive) return;
  gone.alive = gone.stopped = false;
  gone.inbox.clear();
  gone.standing.clear();
  gone.events = {};
  for (const int id : gone.links) {
    Link& l = link(id);
    const int side = side_of(l, p);
    if (!std::exchange(l.up[side], false)) continue;
    if (break_off) break_off(l, side);
    push(id, side, {Item::Kind::end, {}, {}, {}, reason});
  }
}

void SimulatedNetwork::stop(int p) { process(p).stopped = process(p).alive; }

void SimulatedNetwork::go_on(int p) {
  Process& here = process(p);
  if (!std::exchange(here.stopped, false)) return;
  for (const auto& event : std::exchange(here.inbox, {}))
    if (here.alive) event();
}

void SimulatedNetwork::break_link(int a, int b) {
  const auto found = process(a).standing.find(name(b));
  if (found == process(a).standing.end()) return;
  const int id = found->second;
  const int side = side_of(link(id), a);
  end(id, side, "connection reset");
  at(now() + delay(), [=, this] { end(id, 1 - side, "connection reset"); });
}

void SimulatedNetwork::close(int p, const std::string& node, const std::string& reason) {
  const auto found = process(p).standing.find(node);
  if (found == process(p).standing.end()) return;
  const int id = found->second, side = side_of(link(id), p);
  push(id, side, {Item::Kind::end, {}, {}, {}, kSaidGoodbye});
  end(id, side, reason);
}

// --- consoles

void SimulatedNetwork::ask(int p, ConsoleRequest request, Answer answer) {
  const uint64_t console = ++consoles_;
  process(p).consoles[console] = {"", std::move(answer)};
  tell(p, [this, p, console, request] { process(p).events.console(console, request); });
}

void SimulatedNetwork::reply(int p, uint64_t console, const ConsoleReply& part) {
  const auto found = process(p).consoles.find(console);
  if (found == process(p).consoles.end()) return;
  found->second.first += part.text;
  if (part.more) return;
  const ConsoleReply whole{part.ok, false, std::move(found->second.first)};
  const Answer answer = std::move(found->second.second);
  process(p).consoles.erase(found);
  at(now() + delay(), [answer, whole] { answer(whole); });
}

}  // namespace grapevine::test
