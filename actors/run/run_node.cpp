#include "actors/run/run_node.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "actors/algorithms/method_registry.hpp"
#include "actors/clocks/wall_scheduler.hpp"
#include "actors/cluster/mean_sums.hpp"
#include "actors/compute/compute.hpp"
#include "actors/device/device_links.hpp"
#include "actors/guests/guest_hall.hpp"
#include "actors/mail/mailboxes.hpp"
#include "actors/mail/promised.hpp"
#include "actors/run/fits.hpp"
#include "actors/run/gpu.hpp"
#include "actors/run/guarded.hpp"
#include "actors/run/spawn_node.hpp"
#include "actors/run/state_sizes.hpp"
#include "actors/transport/arrivals.hpp"
#include "kernels/base/caught.hpp"
#include "kernels/memory/hash.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "messages/facts.hpp"

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

// Which tensors decay is the settings', and a script's layout does not know it.
uint64_t hash_of_tensors(const ParameterLayout& layout) {
  ParameterLayout same(layout.dtype());
  for (const ParameterEntry& tensor : layout.entries())
    same.add(tensor.name, tensor.shape, true);
  return same.hash();
}

// For who has other tensors, of which there may be as many parameters.
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
  // A sum of gradients and of steps has no sense.
  const bool sends_gradients = method_named(s.method).pattern == Pattern::collective;
  if (sends_gradients && s.objective.objective == kGuestObjective) {
    hello.job = fnv1a("steps", hello.job);
    hello.job_is += ", whose steps scripts compute";
  }
  return hello;
}

std::shared_ptr<Arrivals> make_arrivals(uint64_t payload_bytes, const Settings& s) {
  const auto here = static_cast<size_t>(ranks_here(s));
  return std::make_shared<Arrivals>(payload_bytes, 16 * here + 64,
                                    16 * static_cast<size_t>(s.ranks) * here + 64);
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
  options.lent_payloads = 4 * static_cast<size_t>(ranks_here(s)) + 4;  // half of what there are
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
  if (any.rule.gamma == 0) any.rule.gamma = 1;  // for the numbers, which are not looked at
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

/// The end conditions of a run, checked now and then.
struct Reached {
  std::function<bool()> has_diverged;  // here
  std::function<bool()> is_left;       // somebody wants this process to end, or a hook threw
  std::function<bool()> is_for_all;    // and the others too
  std::function<bool()> is_enough;     // for all nodes
  std::function<bool()> is_over;       // the time of the ranks here
};

// To the end of the run, or of this node in it: which may have to leave while it ends, because its
// device is lost or somebody wants it to.
ClusterEnding await_end(Promised<ClusterEnding>& ending, const ClusterActor& cluster,
                        const Reached& reached, const std::function<void()>& save) {
  for (bool ends = false, leaves = false;;) {
    if (auto end = ending.wait(std::chrono::milliseconds(50))) return std::move(*end);
    if (leaves) continue;
    if (reached.has_diverged()) {
      leaves = true;
      caf::anon_send(cluster, Leave{});
    } else if (reached.is_left()) {
      leaves = true;
      save();
      if (reached.is_for_all())
        caf::anon_send(cluster, Stop{});
      else
        caf::anon_send(cluster, Leave{});
    } else if (!ends && reached.is_enough()) {
      ends = true;
      caf::anon_send(cluster, Stop{});
    } else if (!ends && reached.is_over()) {
      ends = true;
      caf::anon_send(cluster, Finish{});
    }
  }
}

// The steps are those of scripts, which hear of every epoch.
void let_scripts_in(NodeHooks& hooks) {
  hooks.run.make_worker = guest_workers(hooks.guests->table());
  hooks.run.sink.on_epoch = [guests = hooks.guests,
                             told = hooks.run.sink.on_epoch](const EpochInfo& info) {
    guests->on_epoch(info);
    if (told) told(info);
  };
  hooks.guests->set_sink(hooks.run.sink.on_event);
}

std::shared_ptr<const Buffer> mean_statistics(const Objective& objective, const Outcome& outcome,
                                              int ranks) {
  const ParameterLayout& layout = objective.statistics();
  if (layout.size() == 0) return nullptr;
  Buffer one(layout.size(), layout.dtype()), sum(layout.size(), DType::f64);
  int count = 0;
  for (const RankParameters& p : ranks_in_mean(outcome)) {
    const int shard = p.rank % ranks;
    if (!objective.has_statistics(shard)) continue;
    objective.read_for_mean(shard, one);
    accumulate({}, one, sum);
    ++count;
  }
  if (count == 0) return nullptr;
  return std::make_shared<const Buffer>(mean_of(sum, count, layout.dtype()));
}

void take_mean(const ClusterEnding& end, const Objective& objective, int ranks,
               NodeResult& result) {
  if (end.mean && end.mean->ranks > 0) {
    result.mean = std::shared_ptr<const Buffer>(end.mean, &end.mean->vectors[0]);
    if (end.mean->vectors.size() > 1 && end.mean->ranks_in[1] > 0)
      result.statistics = std::shared_ptr<const Buffer>(end.mean, &end.mean->vectors[1]);
    result.ranks = end.mean->ranks;
  }
  result.nodes = end.nodes;
  if (!result.mean && !result.outcome.parameters.empty()) {  // that of the ranks here alone
    result.mean = std::make_shared<const Buffer>(mean_parameters(result.outcome));
    result.statistics = mean_statistics(objective, result.outcome, ranks);
    result.ranks = static_cast<int>(ranks_in_mean(result.outcome).size());
    result.nodes = 1;
  }
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
  // After the cluster's: who asks finds that it has begun.
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
  node.transport = std::make_shared<LinkTransport>(deliver_to(mailboxes),
                                                   hold_by(system, clock, holder), s.seed);
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
    node.run = spawn_run(system, s, std::move(objective), std::move(ranks), std::move(site), ended);
  } catch (const std::system_error&) {  // a thread
    node.stop();
    throw;
  }
  if (device) {
    const StateActor& owner = node.run->states.front();
    device->copy_by([by = std::weak_ptr(node.run->compute)](std::function<void()> task) {
      if (const auto compute = by.lock()) compute->help(std::move(task));
    });
    device->serve(to_owner(owner), time_of_owner(system, clock, owner));
  }
  return node;
}

namespace {

GuestHall::Run run_of_scripts(caf::actor_system& system, const SpawnedNode& node, const Settings& s,
                              bool on_device) {
  return {.system = &system,
          .cluster = node.cluster,
          .counters = node.run->counters,
          .pool = node.run->pool,
          .clock = node.run->clock,
          .gradients = s.gradients,
          .ranks = s.ranks,
          .checkpointer = node.run->checkpointer,
          .on_device = on_device};
}

// Once all that is said of it is in order.
Result<NodeResult> run_checked(const Settings& s, const NodeSettings& n,
                               std::shared_ptr<Objective> objective, NodeHooks hooks,
                               Thrown& thrown) {
  RunSystemConfig config(Clock::wall);
  caf::actor_system system{config};
  const RunClock clock(system);
  Promised<ClusterEnding> ending;
  Promised<Outcome> ended;
  Promised<Alarm> alarmed;  // that the ranks here drift apart, or that one has a loss of no number
  hooks.run.sink.on_alarm = [&alarmed, told = hooks.run.sink.on_alarm](const Alarm& alarm) {
    if (told) told(alarm);
    if (alarm.what == Alarm::What::divergence) alarmed.keep(alarm);
  };
  const auto begun_s = std::make_shared<std::atomic<double>>(kNever);  // the ranks here have
  hooks.run.sink.on_epoch = [begun_s, told = hooks.run.sink.on_epoch](const EpochInfo& info) {
    begun_s->store(std::min(begun_s->load(), info.at_s));
    if (told) told(info);
  };
  if (hooks.guests) let_scripts_in(hooks);
  SpawnedNode node = spawn_node(system, s, n, objective, hooks,
                                {[&](Outcome o) { ended.keep(std::move(o)); },
                                 [&](ClusterEnding e) { ending.keep(std::move(e)); }});
  hooks.run.resumption = {};  // the ranks have it
  auto opened = Links::open(node.options, node.events);
  if (!opened) {
    node.stop();
    return opened.error();
  }
  const std::shared_ptr<Links> links = std::move(*opened);
  if (hooks.on_listening)
    guarded(thrown, "the hook on_listening", false,
            [&] { return hooks.on_listening(links->address()), true; });
  node.start(links);
  if (hooks.guests)
    hooks.guests->begin(run_of_scripts(system, node, s, hooks.run.device != nullptr));

  std::optional<Alarm> alarm;
  const auto* interrupts = hooks.run.interrupts;
  const auto* for_all = hooks.interrupt_is_for_all;
  const auto* is_enough = hooks.run.is_enough;
  const Reached reached{
      .has_diverged =
          [&] { return (alarm = alarmed.wait(std::chrono::milliseconds(0))).has_value(); },
      .is_left = [&] { return thrown.any() || (interrupts != nullptr && interrupts->load() > 0); },
      .is_for_all = [&] { return !thrown.any() && for_all != nullptr && for_all->load(); },
      .is_enough = [&] { return is_enough != nullptr && is_enough->load(); },
      .is_over = [&] { return s.until_s > 0 && clock.now() - *begun_s >= s.until_s; }};
  const ClusterEnding end =
      await_end(ending, node.cluster, reached, [&] { save_last(system, *node.run); });
  NodeResult result;
  if (auto outcome = ended.wait(std::chrono::milliseconds(0))) result.outcome = std::move(*outcome);
  if (!alarm) alarm = alarmed.wait(std::chrono::milliseconds(0));
  if (alarm) result.outcome.fail(*alarm);
  if (!thrown.any()) judge_end(s, *objective, *node.run->counters, hooks.run.sink, result.outcome);
  take_mean(end, *objective, s.ranks, result);
  if (hooks.guests)
    hooks.guests->end(result.mean, result.statistics, result.ranks, reached.is_left);
  const auto ledgers = node.run->ledgers;
  node.stop();
  result.outcome.costs = settled(*ledgers, clock, hooks.run.checkpoints.settle);
  if (end.drained) charge_drain(result.outcome.costs);
  if (end.failure) return *end.failure;
  result.missing = end.missing;
  result.lost = end.lost, result.left = end.left;
  result.departures = end.departures;
  result.drained = end.drained;
  result.stopped = end.stopped;
  result.mass_lost = end.mass_lost;
  return result;
}

Status check_text(const char* what, const std::string& text, size_t most) {
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 127; });
  if (printable && text.size() <= most) return Done{};
  return user_error(
      fmt::format("the node's {} has {} bytes{}, accepted: at most {}, printable ASCII", what,
                  text.size(), printable ? "" : ", not all printable", most));
}

void guard(NodeHooks& hooks, const std::shared_ptr<Thrown>& thrown) {
  guard(hooks.run, thrown);
  if (hooks.render)
    hooks.render = [told = std::move(hooks.render), thrown](const NodeStatus& status) {
      return guarded(*thrown, "the hook render", std::string(), [&] { return told(status); });
    };
  if (hooks.describe_snapshot)
    hooks.describe_snapshot = [told = std::move(hooks.describe_snapshot),
                               thrown](const Mean& mean) {
      return guarded(*thrown, "the hook describe_snapshot", std::string(),
                     [&] { return told(mean); });
    };
  if (hooks.read_plan)
    hooks.read_plan = [told = std::move(hooks.read_plan), thrown](const std::string& text) {
      return guarded(*thrown, "the hook read_plan", Result<Plan>(user_error("it cannot be read")),
                     [&] { return told(text); });
    };
}

}  // namespace

std::string name_of_this_process() {
  char host[64] = "node";
  gethostname(host, sizeof host - 1);
  const std::string process = fmt::format("-{}", getpid());
  return std::string(host).substr(0, kNameBytes - process.size()) + process;
}

Status check_of_node(const Settings& s) {
  Settings without_plan = s;
  without_plan.plan = {};
  if (Status fits = check(without_plan); !fits) return fits;
  return check(s.plan, s.ranks, false);
}

Status check(const NodeSettings& n, const Settings& s) {
  const int here = ranks_here(s);
  if (s.clock != Clock::wall)
    return user_error("the clock of a node is simulated, accepted: the wall clock");
  if (s.local_ranks < 0 || here > s.ranks || here > static_cast<int>(kRanksOfNodeAtMost))
    return user_error(fmt::format(
        "local_ranks is {} of {}, accepted of a node: 1 to {}, or 0 for all", s.local_ranks,
        s.ranks, std::min(s.ranks, static_cast<int>(kRanksOfNodeAtMost))));
  const int last = static_cast<int>(kRankNumbersAtMost) - here;
  if (n.first_rank < -1 || n.first_rank > last)
    return user_error(
        fmt::format("first_rank is {}, accepted: -1, or 0 to {}", n.first_rank, last));
  const int needed = std::max(0, n.first_rank) + here;
  if (n.total_ranks != 0 && n.total_ranks < needed)
    return user_error(
        fmt::format("total_ranks is {}, accepted: 0, or {} or more, with those of this node",
                    n.total_ranks, needed));
  if (!(n.patience_s > 0 && n.patience_s < kNever))
    return user_error(fmt::format("patience_s is {}, accepted: a number above 0", n.patience_s));
  if (Status fits = check_text("run", n.run, kNameBytes); !fits) return fits;
  if (Status fits = check_text("name", n.name, kNameBytes); !fits) return fits;
  if (Status fits = check_text("listen", n.listen, kAddressBytes); !fits) return fits;
  if (Status fits = check_text("advertise", n.advertise, kAddressBytes); !fits) return fits;
  for (const std::string& address : n.join)
    if (Status fits = check_text("join", address, kAddressBytes); !fits) return fits;
  for (const std::string* lines : {&n.settings, &n.defaults})
    if (lines->size() > kSettingsBytes)
      return user_error(
          fmt::format("the node's settings or defaults have {} bytes, accepted: at most {}",
                      lines->size(), kSettingsBytes));
  return Done{};
}

namespace {

// Checks --link for ranks that are on a GPU.
Status look_for_nccl(const Settings& s, std::shared_ptr<const Nccl>& out) {
  if (s.device_link != DeviceLink::nccl || out) return Done{};
  const auto gpu = gpu_named(s.device);
  if (!gpu) return gpu.error();
  if (!*gpu) return Done{};
  auto found = load_nccl(**gpu);
  if (!found)
    return user_error("link is nccl, and there is " + found.error().message +
                      ", accepted without it: auto, host, vmm");
  out = std::make_shared<const Nccl>(*std::move(found));
  return Done{};
}

}  // namespace

Result<NodeResult> run_node(const Settings& given, const NodeSettings& asked,
                            std::shared_ptr<Objective> objective, NodeHooks hooks) {
  if (Status possible = check_of_node(given); !possible) return possible.error();
  if (Status possible = check(asked, given); !possible) return possible.error();
  Settings settings = given;
  settings.local_ranks = ranks_here(given);
  NodeSettings node = asked;
  if (node.name.empty()) node.name = name_of_this_process();
  if (!node.own_key) node.own_key = std::make_shared<const NodeKey>(NodeKey::generate());
  if (node.life == 0) node.life = name_hash(fmt::format("{}", fmt::join(random_challenge(), " ")));
  const auto thrown = std::make_shared<Thrown>();
  auto checked = guard(std::move(objective), thrown);
  if (!checked) return checked.error();
  guard(hooks, thrown);
  if (Status fit = fits(settings, **checked, hooks.run.resumption, *thrown); !fit)
    return fit.error();
  Gpu gpu;  // outlives the actors
  if (!hooks.run.device) {
    if (Status found = look_for_nccl(settings, hooks.run.nccl); !found) return found.error();
    auto found = open_gpu(settings, **checked, hooks.run.sink.on_event);
    if (!found) return found.error();
    gpu = std::move(*found);
    hooks.run.device = gpu.share;
  }
  try {
    auto result = run_checked(settings, node, std::move(*checked), std::move(hooks), *thrown);
    if (const auto what = thrown->first()) return *what;
    return result;
  } catch (const std::system_error& refused) {
    return no_thread(refused);
  }
}

}  // namespace grapevine
