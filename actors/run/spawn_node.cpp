#include "actors/run/spawn_node.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "actors/algorithms/method_registry.hpp"
#include "actors/clocks/wall_scheduler.hpp"
#include "actors/compute/compute.hpp"
#include "actors/device/device_links.hpp"
#include "actors/mail/mailboxes.hpp"
#include "actors/run/state_sizes.hpp"
#include "actors/transport/arrivals.hpp"
#include "kernels/memory/hash.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "messages/facts.hpp"
#include "models/guest.hpp"

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::LinkTransport::Held)

namespace grapevine {

namespace {

// An actor holds the frames that a plan delays, and returns each when its time has come.
using HolderActor = caf::typed_actor<Takes<LinkTransport::Held>>;

HolderActor::behavior_type hold(HolderActor::pointer, std::shared_ptr<LinkTransport> transport) {
  return {[transport = std::move(transport)](LinkTransport::Held& held) {
    transport->pass_on(std::move(held));
  }};
}

LinkTransport::HoldUntil hold_by(const RunClock& clock,
                                 std::shared_ptr<caf::strong_actor_ptr> holder) {
  return [clock, holder = std::move(holder)](double at, LinkTransport::Held held) {
    clock.send_at(at, *holder, std::move(held));
  };
}

// The settings say which tensors decay. A script's layout does not know it.
uint64_t hash_of_tensors(const ParameterLayout& layout) {
  ParameterLayout same(layout.dtype());
  for (const ParameterEntry& tensor : layout.entries())
    same.add(tensor.name, tensor.shape, true);
  return same.hash();
}

// For a node with other tensors: it may have the same number of parameters.
std::string in_words(const ParameterLayout& layout) {
  constexpr size_t kNameAtMost = 60;
  const ParameterEntry& first = layout.entries().front();
  std::string name = first.name.substr(0, kNameAtMost);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return fmt::format("{} parameters: {} [{}] and {} more", layout.size(), name,
                     fmt::join(first.shape, ", "), layout.entries().size() - 1);
}

// The settings that both ends of a link must agree on.
Hello hello_of(const Settings& s, const NodeSettings& n, const Objective& objective) {
  Hello hello;
  hello.run = n.run;
  hello.node = n.name;
  hello.incarnation = 1;
  hello.settings = n.settings;
  hello.defaults = n.defaults;
  const uint64_t hashes[] = {hash_of_tensors(objective.layout()),
                             hash_of_tensors(objective.statistics())};
  const uint64_t tensors = fnv1a(std::as_bytes(std::span(hashes)));
  hello.job = fnv1a(s.method + "/" + s.rule.compress, tensors);
  if (s.rule.wire == Wire::bf16) hello.job = fnv1a("bf16", hello.job);
  hello.job_is =
      fmt::format("{} of {}, {:04x}", s.method, in_words(objective.layout()), tensors & 0xffff);
  if (!s.rule.compress.empty()) hello.job_is += ", compressed by " + s.rule.compress;
  if (s.rule.wire == Wire::bf16) hello.job_is += ", sent in bf16";
  if (const InnerSteps inner = inner_steps_of(s)) {
    const std::string outer = fmt::format("outer steps {}, {}", inner.outer_lr, s.outer_momentum);
    hello.job = fnv1a(outer, hello.job);
    hello.job_is += ", " + outer;
  }
  // A sum of gradients and steps has no meaning.
  const bool sends_gradients = method_named(s.method).pattern == Pattern::collective;
  if (sends_gradients && s.objective.objective == kGuestObjective) {
    hello.job = fnv1a("steps", hello.job);
    hello.job_is += ", whose steps scripts compute";
  }
  return hello;
}

// In rounds a neighbour is at most one phase ahead, so of each edge two messages may be here and
// one be in use. With fewer slots the messages of the next phase would keep out those that are
// awaited, and all ranks would wait for ever. The graph may become the complete one, and others may
// join.
std::shared_ptr<Arrivals> make_arrivals(uint64_t payload_bytes, const Settings& s) {
  const auto here = static_cast<size_t>(ranks_here(s)), all = static_cast<size_t>(s.ranks);
  const bool in_rounds = method_named(s.method).pattern == Pattern::rounds;
  const size_t frames = std::max<size_t>(16, in_rounds ? 3 * 2 * all : 0) * here + 64;
  return std::make_shared<Arrivals>(payload_bytes, frames, 16 * all * here + 64);
}

struct Handles {
  ClusterActor cluster;
  TransfersActor transfers;
  ConsoleActor console;
};

void events_of_links(LinkEvents& events, const Handles& to) {
  events.up = [to](const Hello& peer) {
    caf::anon_send(to.cluster, LinkUp{peer});
    caf::anon_send(to.transfers, LinkUp{peer});
  };
  events.down = [to](const std::string& node, uint32_t, const std::string& reason) {
    caf::anon_send(to.cluster, LinkDown{node, reason});
    caf::anon_send(to.transfers, LinkDown{node, reason});
  };
  events.dial_failed = [to](const std::string& address, const std::string& reason, bool refused) {
    caf::anon_send(to.cluster, DialFailed{address, reason, refused});
  };
  events.turned_away = [to](const std::string& from, const std::string& reason) {
    caf::anon_send(to.console, TurnedAway{from, reason});
  };
  events.contested = [to](const std::string& node) { caf::anon_send(to.cluster, Contested{node}); };
  events.bulk_ended = [to](const std::string& node, uint64_t lost, const std::string& reason) {
    caf::anon_send(to.console, BulkEnded{node, lost, reason});
  };
}

LinkEvents events_to(const Handles& to, std::shared_ptr<LinkTransport> transport,
                     const std::shared_ptr<Arrivals>& arrivals) {
  LinkEvents events;
  events_of_links(events, to);
  events.control = [to, transport](const std::string& node, ControlMessage message) {
    if (const auto* talk = std::get_if<NcclTalk>(&message))
      transport->hear(node, *talk);
    else if (auto* packet = std::get_if<MembershipPacket>(&message))
      caf::anon_send(to.cluster, Heard{node, std::move(*packet)});
    else
      caf::anon_send(to.transfers, Said{node, std::move(message)});
  };
  events.frame = [=](const std::string& node, Frame frame) {
    transport->receive(node, std::move(frame));
  };
  events.parcel = [to](const std::string& node, const Parcel& parcel, Payload payload) {
    caf::anon_send(to.transfers, ParcelCame{node, parcel, std::move(payload)});
  };
  events.console = [to](uint64_t console, ConsoleRequest request) {
    caf::anon_send(to.console, Asked{console, std::move(request)});
  };
  events.console_gone = [to](uint64_t console) {
    caf::anon_send(to.console, ConsoleGone{console});
  };
  events.buffer = [arrivals](const FrameHeader& h) { return arrivals->of_frame(h); };
  events.parcel_buffer = [arrivals](const std::string& node, const Parcel&) {
    return arrivals->of_parcel(node);
  };
  return events;
}

LinksOptions links_options(const Settings& s, const NodeSettings& n, const Objective& objective) {
  LinksOptions options;
  options.listen = n.listen;
  options.advertise = n.advertise;
  options.key = n.key;
  if (n.own_key) options.own_key = *n.own_key;
  options.no_key = n.no_key;
  options.bulk_encryption = n.bulk_encryption;
  options.same_host = n.same_host;
  options.self = hello_of(s, n, objective);
  options.lent_payloads = 4 * static_cast<size_t>(ranks_here(s)) + 4;  // half of the payloads
  options.max_payload_bytes =
      2 * (objective.layout().bytes() + objective.statistics().bytes()) + 64;
  return options;
}

Site site_of(const ClusterActor& cluster, std::shared_ptr<Mailboxes> mailboxes,
             std::shared_ptr<LinkTransport> transport, bool in_shared_memory) {
  Site site;
  site.mailboxes = std::move(mailboxes);
  site.transport = std::move(transport);
  site.membership = cluster;
  if (in_shared_memory) site.memory = SnapshotPool::Memory::shared;
  return site;
}

// The contents of a rank's state: x, and the other vectors of its rule.
SnapshotShape shape_of_rank(const Settings& s, const Objective& objective) {
  const ParameterLayout& layout = objective.layout();
  Settings any = s;
  if (any.rule.gamma == 0) any.rule.gamma = 1;  // for the numbers, whose values are not read
  const Buffer x(layout.size(), layout.dtype());
  const RuleSettings rule = rule_settings_of(any, objective);
  const auto made = method_named(s.method).make({0, s.seed, layout, {}, rule, x});
  SnapshotShape shape{layout.dtype(), 0, layout.size()};
  const RuleState state = made->state(0);
  for (const RuleState::Vector& v : state.vectors)
    shape.vectors += v.follows == Follows::model;
  for (const RuleState::Number& n : state.numbers)
    shape.numbers += n.follows == Follows::model;
  return shape;
}

Member self_of(const Settings& s, const NodeSettings& n) {
  Member self;
  self.node = n.name;
  self.ranks = static_cast<uint32_t>(ranks_here(s));
  self.first_rank = n.first_rank < 0 ? kAnyRank : static_cast<uint32_t>(n.first_rank);
  self.ready = false;
  self.life = n.life;
  return self;
}

LifecycleOptions lifecycle_of(const NodeSettings& n) {
  LifecycleOptions options;
  options.total_ranks = static_cast<uint32_t>(n.total_ranks);
  options.patience_s = n.patience_s;
  options.joins = n.join;
  options.joins_are = n.join_is;
  return options;
}

Handles spawn_agents(caf::actor_system& system, const Settings& s, const NodeSettings& n,
                     const std::shared_ptr<const Objective>& objective, const NodeHooks& hooks,
                     const std::shared_ptr<LinkTransport>& transport,
                     std::function<void(ClusterEnding)> done) {
  const RunClock clock(system);
  const ParameterLayout& layout = objective->layout();
  const ParameterLayout& statistics = objective->statistics();
  MeanShape mean{{{"x", layout.size(), layout.dtype()}}};
  if (statistics.size() > 0)
    mean.vectors.push_back({"statistics", statistics.size(), statistics.dtype()});
  const auto say = [told = hooks.run.sink.on_event](const std::string& line) {
    if (told) told(line);
  };
  Handles to;
  GV_CHECK(n.own_key != nullptr);
  to.cluster = system.spawn<Cluster>(ClusterDependencies{
      clock, std::make_shared<const Settings>(s), transport, self_of(s, n),
      MembershipOptions{s.seed, n.join, s.topology, run_of(hello_of(s, n, *objective)),
                        hooks.run.resumption.generation, gradients_of(hooks.run.resumption),
                        n.own_key->signing()},
      lifecycle_of(n), say, [sink = hooks.run.sink](const Alarm& alarm) { sink.raise(alarm); },
      std::move(done)});
  to.transfers = system.spawn<Transfers>(
      TransfersDependencies{clock, n.name, objective, s.ranks, shape_of_rank(s, *objective),
                            std::move(mean), n.patience_s, say, s.gradients});
  to.console = system.spawn<ConsoleServer>(ConsoleDependencies{
      clock, transport, hooks.render, hooks.describe_snapshot, hooks.read_plan, say});
  return to;
}

// Connects ranks on a device with other processes.
std::shared_ptr<DeviceLinks> link_device(const Settings& s, const RunHooks& hooks,
                                         const std::string& name,
                                         std::function<void(const std::string&)> say,
                                         SnapshotPool::Memory memory, SpawnedNode& node) {
  const auto leaving = 8 * static_cast<size_t>(ranks_here(s)) + 8;
  const auto& share = hooks.device;
  const size_t largest = node.options.max_payload_bytes;
  auto dock = std::make_shared<DeviceDock>(share, largest, leaving, memory);
  node.options.frames_in_place = true;  // the dock copies each frame to the device, once
  const auto links = std::make_shared<DeviceLinks>(share, std::move(dock), s.device_link,
                                                   node.transport, std::move(say));
  if (s.device_link == DeviceLink::nccl && hooks.nccl) {
    links->use(hooks.nccl, name, largest);
    node.transport->hear_by(
        [links](const std::string& from, const NcclTalk& said) { links->hear(from, said); });
  }
  node.transport->carry_by(
      [links](const std::string& to, const FrameHeader& h, Payload p, bool is_spoiled, auto then) {
        links->leave(to, h, std::move(p), is_spoiled, std::move(then));
      },
      [links](Payload p, auto then) { links->land(std::move(p), std::move(then)); },
      [links] { return links->edges(); });
  node.events.lent = [links](const std::string& from, const LentMemory& memory,
                             std::shared_ptr<MemoryLine> line) {
    return links->lent(from, memory, std::move(line));
  };
  node.events.down = [links, told = node.events.down](const std::string& other,
                                                      uint32_t incarnation,
                                                      const std::string& reason) {
    links->down(other);
    told(other, incarnation, reason);
  };
  return links;
}

}  // namespace

void SpawnedNode::start(const std::shared_ptr<Links>& links) {
  transport->use(links.get());
  caf::anon_send(transfers, TransfersStart{links, run->states, cluster});
  caf::anon_send(cluster,
                 ClusterStart{links, run->node, run->manager, run->states, transfers, console});
  // After the cluster: the console answers only once the cluster has begun.
  caf::anon_send(
      console, ConsoleStart{links, run->node, run->states, cluster, transfers, run->checkpointer});
}

void SpawnedNode::stop() {
  transport->use(nullptr);
  caf::anon_send_exit(cluster, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(transfers, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(console, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(holder, caf::exit_reason::user_shutdown);
  cluster = nullptr;
  transfers = nullptr;
  console = nullptr;
  holder = nullptr;
  events = {};
  transport.reset();
  if (run) run->stop();
  run.reset();
}

SpawnedNode spawn_node(caf::actor_system& system, const Settings& s, const NodeSettings& n,
                       std::shared_ptr<Objective> objective, const NodeHooks& hooks,
                       NodeEnds ends) {
  WallScheduler::require_threads(system);
  SpawnedNode node;
  const RunClock clock(system);
  auto mailboxes = std::make_shared<Mailboxes>();
  const auto holder = std::make_shared<caf::strong_actor_ptr>();
  node.transport =
      std::make_shared<LinkTransport>(deliver_to(mailboxes), hold_by(clock, holder), s.seed);
  node.transport->set_faults(s.plan.link_faults);
  node.holder = *holder =
      caf::actor_cast<caf::strong_actor_ptr>(system.spawn(hold, node.transport));

  const Handles to =
      spawn_agents(system, s, n, objective, hooks, node.transport, std::move(ends.node));
  node.cluster = to.cluster;
  node.transfers = to.transfers;
  node.console = to.console;
  node.options = links_options(s, n, *objective);
  node.events = events_to(to, node.transport, make_arrivals(node.options.max_payload_bytes, s));
  Site site = site_of(to.cluster, mailboxes, node.transport, n.same_host && s.clock == Clock::wall);
  std::shared_ptr<DeviceLinks> device;
  if (hooks.run.device) {
    auto say = [console = caf::actor_cast<caf::weak_actor_ptr>(to.console),
                told = hooks.run.sink.on_event](const std::string& line) {
      if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(console))
        caf::anon_send(caf::actor_cast<ConsoleActor>(alive), Note{line});
      if (told) told(line);
    };
    device = link_device(s, hooks.run, n.name, std::move(say), site.memory, node);
  }
  const auto ended = [to, told = std::move(ends.ranks)](Outcome o) {
    RunEnded what{o.failure.has_value(), o.parameters};
    told(std::move(o));
    caf::anon_send(to.cluster, std::move(what));
  };
  RunHooks ranks = hooks.run;
  ranks.sink.on_event = [to, told = hooks.run.sink.on_event](const std::string& line) {
    caf::anon_send(to.console, Note{line});
    if (told) told(line);
  };
  try {
    node.run = spawn_on(system, s, std::move(objective), std::move(ranks), std::move(site), ended);
  } catch (const std::system_error&) {  // a thread could not start
    node.stop();
    throw;
  }
  if (device) {
    const StateActor& owner = node.run->states.front();
    device->copy_by([by = std::weak_ptr(node.run->compute)](std::function<void()> task) {
      if (const auto compute = by.lock()) compute->help(std::move(task));
    });
    device->serve(to_owner(owner), time_of_owner(clock, owner));
  }
  return node;
}

}  // namespace grapevine
