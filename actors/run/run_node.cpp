#include "actors/run/run_node.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "actors/algorithms/method_registry.hpp"
#include "actors/run/promised.hpp"
#include "kernels/hash.hpp"

namespace grapevine {

namespace {

// What both ends of a link must agree on.
Hello hello_of(const Settings& s, const NodeSettings& n, const ParameterLayout& layout) {
  Hello hello;
  hello.run = n.run;
  hello.node = n.name;
  hello.incarnation = 1;
  hello.job = fnv1a(s.method + "/" + s.rule.compress, layout.hash());
  hello.job_is = s.method + " of " + std::to_string(layout.size()) + " parameters";
  return hello;
}

// Where payloads go. Rounds of everybody keep many small parts, in slots of an eighth; and what
// nobody asks for again (a mean of each node, pieces of a rank's state) has a pool that neither
// rounds nor exchanges can drain.
struct Arrivals {
  static constexpr uint64_t kPart = 8;
  uint64_t frame_bytes = 0;
  std::shared_ptr<SnapshotPool> frames, parts, pieces;

  Arrivals(uint64_t bytes, const Settings& s) : frame_bytes(bytes) {
    const auto here = static_cast<size_t>(ranks_here(s));
    const auto pool = [](uint64_t slot_bytes, size_t slots) {
      return std::make_shared<SnapshotPool>(slot_bytes, DType::bytes, slots);
    };
    frames = pool(bytes, 16 * here + 64);
    parts = pool(bytes / kPart, 16 * static_cast<size_t>(s.ranks) * here + 64);
    pieces = pool(bytes, kMembersAtMost);
  }

  Lease take(const FrameHeader& h) const {
    if (h.kind == FrameKind::piece) return pieces->take();
    return (payload_bytes(h) <= frame_bytes / kPart ? parts : frames)->take();
  }
};

LinkEvents events_to(const GatewayActor& gateway, std::shared_ptr<LinkTransport> transport,
                     RunClock clock, const Arrivals& arrivals) {
  LinkEvents events;
  events.up = [=](const Hello& peer) { caf::anon_send(gateway, LinkUp{peer}); };
  events.down = [=](const std::string& node, uint32_t, const std::string& reason) {
    caf::anon_send(gateway, LinkDown{node, reason});
  };
  events.control = [=](const std::string& node, ControlMessage message) {
    caf::anon_send(gateway, Said{node, std::move(message)});
  };
  events.frame = [=](const std::string& node, Frame frame) {
    if (const FrameHeader& h = frame.header; h.kind == FrameKind::piece) {
      caf::anon_send(gateway, MeanCame{node, h, payload_of(h, frame.payload)});
    } else {
      transport->receive(clock.now(), node, std::move(frame));
    }
  };
  events.dial_failed = [=](const std::string& address, const std::string& reason, bool refused) {
    caf::anon_send(gateway, DialFailed{address, reason, refused});
  };
  events.turned_away = [=](const std::string& from, const std::string& reason) {
    caf::anon_send(gateway, TurnedAway{from, reason});
  };
  events.bulk_ended = [=](const std::string& node, uint64_t lost, const std::string& reason) {
    caf::anon_send(gateway, BulkEnded{node, lost, reason});
  };
  events.console = [=](uint64_t console, ConsoleRequest request) {
    caf::anon_send(gateway, Asked{console, std::move(request)});
  };
  events.console_gone = [=](uint64_t console) { caf::anon_send(gateway, ConsoleGone{console}); };
  events.buffer = [arrivals](const FrameHeader& h) { return arrivals.take(h); };
  events.spoils = [=](const FrameHeader& h) { return transport->spoils(clock.now(), h); };
  return events;
}

LinksOptions links_options(const Settings& s, const NodeSettings& n,
                           const ParameterLayout& layout) {
  LinksOptions options;
  options.listen = n.listen;
  options.key = n.key;
  options.no_key = n.no_key;
  options.bulk_encryption = n.bulk_encryption;
  options.same_host = n.same_host;
  options.self = hello_of(s, n, layout);
  options.max_payload_bytes = 2 * layout.bytes() + 64;
  return options;
}

Site site_of(const GatewayActor& gateway, std::shared_ptr<Mailboxes> mailboxes,
             std::shared_ptr<LinkTransport> transport) {
  Site site;
  site.mailboxes = std::move(mailboxes);
  site.transport = std::move(transport);
  site.beyond.rates = [gateway](EdgeRatesPtr rates) { caf::anon_send(gateway, std::move(rates)); };
  site.beyond.reconfigure = [gateway](const std::string& topology) {
    caf::anon_send(gateway, Reconfigure{topology});
  };
  site.share_done = [gateway] { caf::anon_send(gateway, ShareDone{}); };
  site.suspect = [gateway](int rank) { caf::anon_send(gateway, Suspected{rank}); };
  return site;
}

// What a rank's state consists of: x, and what else its rule has.
SnapshotShape shape_of_rank(const Settings& s, const Objective& objective) {
  const ParameterLayout& layout = objective.layout();
  RuleSettings rule = s.rule;
  if (!objective.has_gradients()) rule.optimizer = {};
  if (rule.gamma == 0) rule.gamma = 1;  // as State has it, for the numbers that are not looked at
  const Buffer x(layout.size(), layout.dtype());
  const auto made = method_named(s.method).make({0, s.seed, layout, {}, rule, x});
  return {layout.dtype(), static_cast<uint32_t>(made->vectors(0).size()), layout.size()};
}

GatewayDependencies gateway_dependencies(const RunClock& clock, const Settings& s,
                                         const NodeSettings& n, const Objective& objective,
                                         const NodeHooks& hooks) {
  GatewayDependencies deps{.clock = clock,
                           .settings = std::make_shared<const Settings>(s),
                           .transport = {},
                           .self = {},
                           .membership = {s.seed, n.join, s.topology},
                           .total_ranks = n.total_ranks,
                           .patience_s = n.patience_s,
                           .say = hooks.run.sink.on_event,
                           .render = hooks.render,
                           .render_snapshot = hooks.render_snapshot,
                           .shape = shape_of_rank(s, objective),
                           .read_plan = hooks.read_plan,
                           .done = {}};
  deps.self.node = n.name;
  deps.self.ranks = static_cast<uint32_t>(ranks_here(s));
  deps.self.first_rank = n.first_rank < 0 ? kAnyRank : static_cast<uint32_t>(n.first_rank);
  deps.self.ready = false;
  return deps;
}

// To the end of the run, or of this node in it.
GatewayDependencies::Ending await_end(Promised<GatewayDependencies::Ending>& ending,
                                      const GatewayActor& gateway,
                                      const std::function<bool()>& is_over,
                                      const std::atomic<int>* interrupts) {
  for (bool asked = false;;) {
    if (auto end = ending.wait(std::chrono::milliseconds(50))) return std::move(*end);
    const bool leaves = interrupts != nullptr && interrupts->load() > 0;
    if (asked || !(leaves || is_over())) continue;
    asked = true;
    if (leaves)
      caf::anon_send(gateway, Leave{});
    else
      caf::anon_send(gateway, Finish{});
  }
}

}  // namespace

void SpawnedNode::start(const std::shared_ptr<Links>& links) {
  transport->use(links.get());
  caf::anon_send(gateway, GatewayStart{links, run->node, run->manager, run->states});
}

void SpawnedNode::stop() {
  transport->use(nullptr);
  caf::anon_send_exit(gateway, caf::exit_reason::user_shutdown);
  gateway = nullptr;
  events = {};
  run->stop();
  run.reset();
}

SpawnedNode spawn_node(caf::actor_system& system, const Settings& s, const NodeSettings& n,
                       std::shared_ptr<Objective> objective, const NodeHooks& hooks,
                       NodeEnds ends) {
  SpawnedNode node;
  const RunClock clock(system);
  auto mailboxes = std::make_shared<Mailboxes>();
  node.transport = std::make_shared<LinkTransport>(
      deliver_to(mailboxes),
      [&system, mailboxes, clock](double at, int to, Frame frame) {
        deliver_at(system, *mailboxes, clock.instant(at), to, std::move(frame));
      },
      s.seed);
  node.transport->set_faults(s.plan.link_faults);

  GatewayDependencies deps = gateway_dependencies(clock, s, n, *objective, hooks);
  deps.transport = node.transport;
  deps.done = std::move(ends.node);
  const GatewayActor gateway = node.gateway = system.spawn<Gateway>(std::move(deps));

  node.options = links_options(s, n, objective->layout());
  const Arrivals arrivals(node.options.max_payload_bytes, s);
  node.events = events_to(gateway, node.transport, clock, arrivals);
  Site site = site_of(gateway, mailboxes, node.transport);
  if (n.same_host && s.clock == Clock::wall) site.memory = SnapshotPool::Memory::shared;
  RunHooks run_hooks = hooks.run;
  run_hooks.sink.on_epoch = [gateway, told = hooks.run.sink.on_epoch](const EpochInfo& info) {
    caf::anon_send(gateway, info);
    if (told) told(info);
  };
  const auto ended = [gateway, told = std::move(ends.ranks)](Outcome o) {
    RunEnded what;
    if (!o.parameters.empty()) {
      what.mean = std::make_shared<const Buffer>(mean_parameters(o));
      what.ranks = static_cast<int>(o.parameters.size());
    }
    what.failed = o.failure.has_value();
    what.parameters = o.parameters;
    told(std::move(o));
    caf::anon_send(gateway, std::move(what));
  };
  node.run = spawn_ranks(system, s, std::move(objective), std::move(run_hooks), &site, ended);
  return node;
}

Result<NodeResult> run_node(const Settings& s, const NodeSettings& n,
                            std::shared_ptr<Objective> objective, NodeHooks hooks) {
  RunSystemConfig config(Clock::wall);
  caf::actor_system system{config};
  const RunClock clock(system);
  Promised<GatewayDependencies::Ending> ending;
  Promised<Outcome> ended;
  const auto begun_s = std::make_shared<std::atomic<double>>(kNever);  // the ranks here have
  hooks.run.sink.on_epoch = [begun_s, told = hooks.run.sink.on_epoch](const EpochInfo& info) {
    begun_s->store(std::min(begun_s->load(), info.at_s));
    if (told) told(info);
  };
  SpawnedNode node =
      spawn_node(system, s, n, std::move(objective), hooks,
                 {[&](Outcome o) { ended.keep(std::move(o)); },
                  [&](GatewayDependencies::Ending e) { ending.keep(std::move(e)); }});
  auto opened = Links::open(node.options, node.events);
  if (!opened) {
    node.stop();
    return opened.error();
  }
  const std::shared_ptr<Links> links = std::move(*opened);
  if (hooks.on_listening) hooks.on_listening(links->address());
  node.start(links);

  const auto is_over = [&] { return s.until_s > 0 && clock.now() - *begun_s >= s.until_s; };
  const GatewayDependencies::Ending end =
      await_end(ending, node.gateway, is_over, hooks.run.interrupts);
  NodeResult result;
  if (auto outcome = ended.wait(std::chrono::milliseconds(0))) result.outcome = std::move(*outcome);
  node.stop();
  if (end.failure) return *end.failure;
  result.mean = end.mean;
  result.ranks = end.ranks;
  result.nodes = end.nodes;
  result.departures = end.departures;
  return result;
}

}  // namespace grapevine
