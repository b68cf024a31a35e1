#include "actors/run/run_node.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "actors/algorithms/method_registry.hpp"
#include "actors/run/promised.hpp"
#include "actors/transport/arrivals.hpp"
#include "kernels/hash.hpp"

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::LinkTransport::Held)

namespace grapevine {

namespace {

// Frames that a plan delays are mail to an actor, which gives them back when their time has come.
using HolderActor = caf::typed_actor<Takes<LinkTransport::Held>>;

HolderActor::behavior_type hold(HolderActor::pointer, std::shared_ptr<LinkTransport> transport) {
  return {[transport = std::move(transport)](LinkTransport::Held& held) {
    transport->pass_on(std::move(held));
  }};
}

LinkTransport::HoldUntil hold_by(caf::actor_system& system, const RunClock& clock,
                                 std::shared_ptr<caf::strong_actor_ptr> holder) {
  return [&system, clock, holder = std::move(holder)](double at, LinkTransport::Held held) {
    system.clock().schedule_message(
        clock.instant(at), *holder,
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(held)));
  };
}

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

std::shared_ptr<Arrivals> make_arrivals(uint64_t payload_bytes, const Settings& s) {
  const auto here = static_cast<size_t>(ranks_here(s));
  return std::make_shared<Arrivals>(payload_bytes, 16 * here + 64,
                                    16 * static_cast<size_t>(s.ranks) * here + 64);
}

// What facts of the run are marked with. Never 0.
uint64_t run_of(const Settings& s, const NodeSettings& n, const Objective& objective) {
  const Hello hello = hello_of(s, n, objective.layout());
  return std::max<uint64_t>(fnv1a(hello.run, hello.job), 1);
}

LinkEvents events_to(const GatewayActor& gateway, std::shared_ptr<LinkTransport> transport,
                     const std::shared_ptr<Arrivals>& arrivals) {
  LinkEvents events;
  events.up = [=](const Hello& peer) { caf::anon_send(gateway, LinkUp{peer}); };
  events.down = [=](const std::string& node, uint32_t, const std::string& reason) {
    caf::anon_send(gateway, LinkDown{node, reason});
  };
  events.control = [=](const std::string& node, ControlMessage message) {
    caf::anon_send(gateway, Said{node, std::move(message)});
  };
  events.frame = [=](const std::string& node, Frame frame) {
    transport->receive(node, std::move(frame));
  };
  events.parcel = [=](const std::string& node, const Parcel& parcel, Payload payload) {
    caf::anon_send(gateway, ParcelCame{node, parcel, std::move(payload)});
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
  events.buffer = [arrivals](const FrameHeader& h) { return arrivals->of_frame(h); };
  events.parcel_buffer = [arrivals](const std::string& node, const Parcel&) {
    return arrivals->of_parcel(node);
  };
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
             std::shared_ptr<LinkTransport> transport, bool in_shared_memory) {
  Site site;
  site.mailboxes = std::move(mailboxes);
  site.transport = std::move(transport);
  site.membership = gateway;
  if (in_shared_memory) site.memory = SnapshotPool::Memory::shared;
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
  SnapshotShape shape{layout.dtype(), 0, layout.size()};
  const RuleState state = made->state(0);
  for (const RuleState::Vector& v : state.vectors)
    shape.vectors += v.follows == Follows::model;
  for (const RuleState::Number& n : state.numbers)
    shape.numbers += n.follows == Follows::model;
  return shape;
}

GatewayDependencies gateway_dependencies(const RunClock& clock, const Settings& s,
                                         const NodeSettings& n, const Objective& objective,
                                         const NodeHooks& hooks) {
  GatewayDependencies deps{
      .clock = clock,
      .settings = std::make_shared<const Settings>(s),
      .transport = {},
      .self = {},
      .membership = {s.seed, n.join, s.topology, run_of(s, n, objective), n.generation},
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
  caf::anon_send_exit(holder, caf::exit_reason::user_shutdown);
  gateway = nullptr;
  holder = nullptr;
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
  const auto holder = std::make_shared<caf::strong_actor_ptr>();
  node.transport = std::make_shared<LinkTransport>(deliver_to(mailboxes),
                                                   hold_by(system, clock, holder), s.seed);
  node.transport->set_faults(s.plan.link_faults);
  node.holder = *holder =
      caf::actor_cast<caf::strong_actor_ptr>(system.spawn(hold, node.transport));

  GatewayDependencies deps = gateway_dependencies(clock, s, n, *objective, hooks);
  deps.transport = node.transport;
  deps.done = std::move(ends.node);
  const GatewayActor gateway = node.gateway = system.spawn<Gateway>(std::move(deps));

  node.options = links_options(s, n, objective->layout());
  node.events =
      events_to(gateway, node.transport, make_arrivals(node.options.max_payload_bytes, s));
  Site site = site_of(gateway, mailboxes, node.transport, n.same_host && s.clock == Clock::wall);
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
  node.run = spawn_run(system, s, std::move(objective), hooks.run, std::move(site), ended);
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
