// grapevine node: the ranks of one process in a run of several.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <grapevine/checkpoint.hpp>
#include <optional>
#include <thread>

#include "actors/guests/guest_server.hpp"
#include "actors/run/run_node.hpp"
#include "actors/transport/local_socket.hpp"
#include "actors/transport/run_key.hpp"
#include "actors/transport/sockets.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/commands/commands.hpp"
#include "app/metrics/metrics_server.hpp"
#include "app/output/node_status_json.hpp"
#include "app/output/report.hpp"
#include "app/output/run_directory.hpp"
#include "app/run/interrupts.hpp"
#include "app/run/run_record.hpp"
#include "app/system/ask_node.hpp"
#include "app/system/input_end.hpp"
#include "kernels/base/spec.hpp"
#include "kernels/gpu/cuda_device.hpp"

namespace grapevine {
namespace {

Settings of_this_process(const Settings& s) {
  Settings here = s;
  here.ranks = ranks_here(s);
  return here;
}

Json node_json(const Options& options, const Summary& s, const TrainingTimes& times,
               const std::string& address) {
  Json object = json_of(of_this_process(options.settings), s);
  object["node"] = options.peers.name;
  object["address"] = address;
  object["ranks"] = s.ranks_in_mean;
  object["nodes"] = s.nodes;
  object["first_rank"] = s.first_rank;
  object["local_ranks"] = ranks_here(options.settings);
  object["mean_hash"] = hash_text(s.mean);
  Json weights = Json::array();
  for (const RankSummary& rank : s.ranks)
    if (rank.counts.push_weight > 0) weights.push_back(rank.counts.push_weight);
  object["push_weights"] = weights;
  object["push_weight_lost"] = s.push_weight_lost;
  object["missing"] = s.missing;
  object["split"] = !s.lost.empty();
  object["lost"] = s.lost;
  object["departures"] = departures_json(s.departures);
  object["seconds"] = s.seconds;
  object["evaluation_seconds"] = times.evaluation_s;
  object["total_seconds"] = times.total_s;
  object["run_dir"] = options.out;
  return object;
}

Status accept_plan(const Plan& plan) {
  for (const RankFault& fault : plan.rank_faults)
    if (fault.kind != RankFaultKind::slow)
      return user_error(
          "the plan has pause, kill or restart, accepted by node: slow, reconfigure and faults of "
          "links; grapevine launch applies the others to processes");
  return Done{};
}

// The run has ended here, and these nodes may not have the same mean.
Error complain_of_missing(const std::vector<std::string>& missing) {
  std::string names;
  for (const std::string& node : missing)
    names += (names.empty() ? "" : ", ") + node;
  return world_error("nodes that have not confirmed the mean of this node: " + names +
                     ", accepted: one mean at all nodes");
}

// Null: no metrics are asked for.
Result<std::unique_ptr<MetricsServer>> serve_metrics(const Options& o) {
  if (o.peers.metrics.empty()) return std::unique_ptr<MetricsServer>();
  auto started = MetricsServer::start(o.peers.metrics);
  if (started) announce(o.log, "metrics at " + (*started)->url());
  return started;
}

// Whether the run has other processes.
bool expects_others(const Options& o) {
  return !o.peers.join.empty() || o.peers.total_ranks > ranks_here(o.settings);
}

// Null: there are no guests. A caller with `on_server` has started the scripts and waits for them
// itself.
Result<std::shared_ptr<GuestServer>> open_guest_server(const Options& o,
                                                       const OnGuestServer& on_server) {
  if (o.guests == 0) return std::shared_ptr<GuestServer>();
  GuestServerOptions options{.places = o.guests,
                             .first_rank = std::max(0, o.peers.first_rank),
                             .ranks = o.settings.ranks,
                             .gradients = o.settings.gradients,
                             .run = o.peers.run,
                             .node = o.peers.name,
                             .path = o.door};
  if (on_server) options.patience = options.latecomers = std::chrono::years(1);
  auto server = GuestServer::open(std::move(options));
  if (!server) return server.error();
  announce(o.log, "scripts come in at " + (*server)->path());
  if (on_server) on_server(*server);
  return server;
}

// "left K", from who has started the scripts: that of seat K has ended, and none follows.
void take_left_seat(const std::string& line, int guests, GuestServer* server) {
  if (server == nullptr || !line.starts_with("left ")) return;
  const auto seat = number_of<int>(std::string_view(line).substr(5));
  if (seat && *seat >= 0 && *seat < guests) server->give_up(*seat);
}

void follow_input(std::optional<InputEnd>& input, const Options& o,
                  const std::shared_ptr<GuestServer>& server) {
  input.emplace([server, guests = o.guests](
                    const std::string& line) { take_left_seat(line, guests, server.get()); },
                [log = o.log] {
                  announce(log, "standard input has ended: this node leaves");
                  kill(getpid(), SIGTERM);
                });
}

// Waits, while scripts can connect, until the first script brings the model and the starting point.
// Null: an interrupt came first.
Result<std::shared_ptr<Objective>> objective_of(const Options& o, GuestServer* server) {
  if (server == nullptr) {
    auto made = make_objective_of(o.settings);
    if (!made) return made;
    if (is_of_own_data(o.settings)) announce(o.log, "task: " + (*made)->description());
    return warm_start(o.init, o.settings.ranks, std::move(*made));
  }
  std::shared_ptr<Objective> objective;
  while (objective == nullptr && interrupts() == 0)
    objective = server->await_objective(std::chrono::milliseconds(50));
  return objective;
}

// The objects that scripts have stored with the ranks here, also in an earlier life.
CheckpointThread::KeptOf kept_in(const std::shared_ptr<GuestServer>& server,
                                 const Beginning& begins) {
  if (server == nullptr) return {};
  for (size_t place = 0; place < begins.kept.size(); ++place)
    server->keep(static_cast<int>(place), begins.kept[place]);
  return [server](int rank) { return server->kept(rank); };
}

void announce_host(const Options& options) {
  const std::string& wanted = options.peers.listen;
  if (!options.peers.key.empty() && open_to_others(wanted) != wanted)
    announce(options.log,
             "the host of " + wanted +
                 " is a loopback address here: the node listens at all addresses of this host");
}

// Takes the settings that the first script of the run gave.
void take_from_scripts(const GuestServer& server, Settings& settings) {
  settings.gradients = server.gradients();
  const GuestLayout::Outer outer = server.outer();
  settings.outer_lr = outer.lr, settings.outer_momentum = outer.momentum;
}

// Reports the address of this node. If it was started together with the process that it joins,
// waits until that one listens.
Status meet(const Options& o) {
  announce_host(o);
  if (!o.peers.meets_here || o.peers.join.empty()) return Done{};
  constexpr std::chrono::milliseconds kLook{20};
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(o.peers.patience_s);
  auto found = address_of_node(o.peers.join);
  if (!found) announce(o.log, "waiting for " + o.peers.join);
  while (!found && interrupts() == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
    found = address_of_node(o.peers.join);
  }
  if (found) return Done{};
  const auto folder = local_folder();
  if (interrupts() > 0 || !folder) return found.error();
  return world_error(fmt::format("no node answers at {}/{}.*.sock ({}) within {} s (--patience)",
                                 *folder, local_name(o.peers.join), o.peers.join_is,
                                 shown(o.peers.patience_s)));
}

// The run begins when the first script has brought the model. Whatever is known before is refused
// before a script is started.
Status accept_without_scripts(const Options& o) {
  if (o.guests == 0) return Done{};
  if (o.save)
    if (Status can = may_begin(o); !can) return can;
  if (!o.peers.key.empty())
    if (const auto key = RunKey::read(o.peers.key); !key) return key.error();
  const auto gpu = gpu_named(o.settings.device);
  if (!gpu) return gpu.error();
  if (!*gpu || o.settings.device == "auto") return Done{};
  const auto there = cuda_facts(**gpu);
  return there ? Status(Done{}) : there.error();
}

}  // namespace

Result<int> node(Options options) { return node_with_guests(std::move(options), {}); }

Result<int> node_with_guests(Options options, const OnGuestServer& on_server) {
  const auto since_start = [start = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Settings& settings = options.settings;
  if (options.peers.name.empty()) options.peers.name = name_of_this_process();
  if (Status fits = accept_plan(settings.plan); !fits) return fits.error();
  if (Status fits = accept_without_scripts(options); !fits) return fits.error();
  auto metrics = serve_metrics(options);  // before the first script, which may come late
  if (!metrics) return metrics.error();
  const auto opened = open_guest_server(options, on_server);
  if (!opened) return opened.error();
  const std::shared_ptr<GuestServer> server = *opened;
  std::optional<InputEnd> launcher;
  if (options.peers.ends_with_input) follow_input(launcher, options, server);
  auto objective = objective_of(options, server.get());
  if (!objective) return objective.error();
  if (interrupts() > 0) return kInterrupted;
  if (server != nullptr) take_from_scripts(*server, settings);
  const RunSettings told_to_others = run_settings(options);
  if (Status fits = take_epochs(options.epochs, **objective, settings); !fits) return fits.error();
  auto begins = beginning_of(options, **objective);
  if (!begins) return begins.error();
  options.out = run_path(options, options.peers.name);
  auto kept = kept_in(server, *begins);
  auto record = RunRecord::begin("node", options, **objective, options.out, std::move(*begins),
                                 std::move(kept));
  if (!record) return record.error();
  if (const std::string folder = (*record)->directory(); !folder.empty())
    options.peers.own_key = folder + "/" + kNodeKeyFile;
  if (Status met = meet(options); !met) return (*record)->refuse(met.error());
  std::string address;
  auto told = execute_node(settings, options.peers, told_to_others, *objective, server,
                           (*record)->watch(), [&](const std::string& where) {
                             address = where;
                             if (*metrics)
                               (*metrics)->ask(where, options.peers.key, expects_others(options));
                             announce(options.log, "listening on " + where);
                           });
  if (!told) return (*record)->refuse(told.error());
  Summary& summary = *told;
  (*record)->complete(summary);
  TrainingTimes times;
  if (!summary.failure && summary.ranks_in_mean > 0 && server == nullptr) {  // scripts test theirs
    const double before_s = since_start();
    evaluate(settings, (*record)->watch(), **objective, summary);
    times.evaluation_s = since_start() - before_s;
  }
  times.total_s = since_start();
  const Json object = node_json(options, summary, times, address);
  const Status saved = (*record)->finish(summary, **objective, json_text(object));
  if (summary.failure) {
    if (options.json && summary.alarm) print_json(object);
    return saved ? *summary.failure : saved.error();
  }
  if (options.json)
    print_json(object);
  else
    print_node(of_this_process(settings), summary, times, address, options.out);
  if (!saved) return saved.error();
  if (!summary.missing.empty()) return complain_of_missing(summary.missing);
  if (const auto lacks = shortfall_of(summary)) return *lacks;
  return 0;
}

}  // namespace grapevine
