#include "app/run/execute.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <system_error>
#include <thread>

#include "actors/guests/guest_server.hpp"
#include "actors/run/run_node.hpp"
#include "actors/transport/sockets.hpp"
#include "app/options/plan_file.hpp"
#include "app/output/json_output.hpp"
#include "app/output/node_status_json.hpp"
#include "app/system/ask_node.hpp"
#include "app/system/process_facts.hpp"
#include "kernels/base/mutex.hpp"
#include "kernels/base/spec.hpp"
#include "kernels/passes/ops.hpp"
#include "messages/codec.hpp"
#include "models/data/own_data.hpp"
#include "models/partition.hpp"

namespace grapevine {
namespace {

/// A value that two threads share.
template <class T>
class Guarded {
 public:
  void set(T value) {
    const Lock lock(mutex_);
    value_ = std::move(value);
  }
  T get() const {
    const Lock lock(mutex_);
    return value_;
  }

 private:
  mutable Mutex mutex_;
  T value_ GV_GUARDED_BY(mutex_){};
};

// The active alarms.
class StandingAlarms {
 public:
  void take(const Alarm& alarm) {
    const Lock lock(mutex_);
    std::erase_if(alarms_, [&](const Alarm& a) { return a.same_place(alarm); });
    if (!alarm.over) alarms_.push_back(alarm);
  }
  Json json() const {
    const Lock lock(mutex_);
    Json all = Json::array();
    for (const Alarm& a : alarms_)
      all.push_back({{"kind", name_of(a.what)},
                     {"rank", a.rank < 0 ? Json() : Json(a.rank)},
                     {"peer", a.peer < 0 ? Json() : Json(a.peer)},
                     {"at", a.at_s},
                     {"line", a.line()}});
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Alarm> alarms_ GV_GUARDED_BY(mutex_);
};

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// On the virtual clock an analytic objective is evaluated at each sample, which costs no time
// there.
double loss_at(const Settings& s, Objective& objective, ConstVec x) {
  if (s.clock != Clock::simulated || s.objective.objective == "network") return kNone;
  return objective.evaluate(0, -1, x).loss;
}

// Each rank's distance from the mean and, if the loss is measured, its own loss.
RankSample judge_ranks(const Settings& s, Objective& objective, const RunSample& sample,
                       const std::vector<std::shared_ptr<const Buffer>>& parameters) {
  const ConstVec mean(sample.mean->data(), sample.mean->size(), DType::f64);
  Buffer sum(mean.size, DType::f64);
  RankSample judged{sample.at_s, {}, {}};
  for (const auto& x : parameters) {
    judged.distances.push_back(x ? add_deviation({}, x->vec(), mean, sum) : kNone);
    judged.suboptimalities.push_back(x ? loss_at(s, objective, x->vec()) : kNone);
  }
  return judged;
}

// A run while it lasts. Several actors and threads call its sinks; here they take turns.
struct Course {
  const Settings& settings;
  const Watch& watch;
  Summary& summary;
  std::shared_ptr<Mutex> turn = std::make_shared<Mutex>();
  std::shared_ptr<std::map<int, uint64_t>> reports_seen =  // by rank, the newest
      std::make_shared<std::map<int, uint64_t>>();

  std::function<void(const std::string&)> on_event() const {
    return [this](const std::string& line) {
      const Lock lock(*turn);
      if (watch.on_event) watch.on_event(line);
    };
  }

  std::shared_ptr<TestLane> lane(const std::shared_ptr<Objective>& objective) const {
    TestOrders orders = watch.tests;
    orders.on_test = [this](const TestPoint& point, const Score& best) {
      const Lock lock(*turn);
      summary.tests.push_back(point);
      if (watch.tests.on_test) watch.tests.on_test(point, best);
    };
    return std::make_shared<TestLane>(settings, objective, std::move(orders), on_event());
  }

  /// The lane must outlive the run.
  RunHooks hooks(const std::shared_ptr<Objective>& objective,
                 const std::shared_ptr<TestLane>& lane) const {
    RunHooks hooks;
    hooks.interrupts = watch.interrupts;
    hooks.is_enough = &lane->is_enough();
    hooks.checkpoints = watch.checkpoints;
    if (watch.resumption) hooks.resumption = std::exchange(*watch.resumption, {});
    summary.resumed_at = gradients_of(hooks.resumption);
    hooks.sink.on_sample = [this, objective, lane](const RunSample& s) {
      const auto tested = lane->offer(s);
      const ConstVec mean(s.mean->data(), s.mean->size(), DType::f64);
      const double off = loss_at(settings, *objective, mean);
      const Lock lock(*turn);
      RunSample& point = summary.curve.emplace_back(s);
      point.suboptimality = off;
      if (tested) point.accuracy = tested->test.accuracy;
      point.mean = nullptr;
      if (watch.on_point) watch.on_point(point);
    };
    if (settings.ranks <= kRanksSampled)
      hooks.on_ranks = [this, objective](const RunSample& s, const auto& parameters) {
        RankSample ranks = judge_ranks(settings, *objective, s, parameters);
        const Lock lock(*turn);
        if (watch.on_ranks) watch.on_ranks(s, ranks);
        summary.rank_curve.push_back(std::move(ranks));
      };
    if (watch.on_report)
      hooks.on_report = [this](const RanksReport& report) {
        const Lock lock(*turn);
        watch.on_report(report);
      };
    hooks.sink.on_epoch = [this](const EpochInfo& e) {
      const Lock lock(*turn);
      summary.epochs.push_back(e);
      if (watch.on_epoch) watch.on_epoch(e);
    };
    hooks.sink.on_event = on_event();
    return hooks;
  }

  /// Takes the reports of scripts since the last call.
  void take_reported(const GuestServer& guests, double at_s, uint64_t gradients) const {
    const Lock lock(*turn);
    for (const GuestStatus& script : guests.status()) {
      uint64_t& seen = (*reports_seen)[script.rank];
      uint64_t newest = seen;
      ReportedPoint point{script.rank, at_s, gradients, {}};
      for (const auto& [name, m] : script.measured) {
        newest = std::max(newest, m.number);
        if (m.number > seen) point.values.emplace_back(name, m.value);
      }
      seen = newest;
      if (point.values.empty()) continue;
      if (watch.on_reported) watch.on_reported(point);
      summary.reported.push_back(std::move(point));
    }
  }

  /// For consoles of a node.
  Json last_test() const {
    const Lock lock(*turn);
    return summary.tests.empty() ? Json::object() : found_json(summary.tests.back());
  }

  /// After the run.
  void stop(TestLane& lane) const {
    lane.stop();
    summary.best = lane.best();
    summary.stopped_early = lane.is_enough();
  }
};

void add_ranks(const Settings& settings, const Outcome& outcome, Summary& summary) {
  const bool computes = !outcome.workers.empty();
  summary.ranks.resize(static_cast<size_t>(ranks_here(settings)));
  summary.first_rank = outcome.first_rank;
  for (RankSummary& rank : summary.ranks)
    rank.idle_fraction = computes ? kNone : 0;
  auto of = [&](int rank) -> RankSummary& {
    return summary.ranks[static_cast<size_t>(rank - summary.first_rank)];
  };
  for (const WorkerReport& w : outcome.workers) {
    of(w.rank).gradients = w.gradients;
    of(w.rank).idle_fraction = w.alive_s > 0 ? w.idle_s / w.alive_s : 0;
  }
  std::map<std::pair<int, int>, uint64_t> edges;
  for (const CommunicatorReport& c : outcome.communicators) {
    of(c.rank).exchanges = c.counts.applied;
    of(c.rank).bytes = c.bytes;
    for (const EdgeCount& e : c.edges) {
      uint64_t& count = edges[std::minmax(c.rank, e.peer)];
      count = std::max(count, e.applied);
    }
  }
  for (const auto& [edge, count] : edges)
    summary.edges.push_back({edge.first, edge.second, count});
  for (const RankParameters& p : outcome.parameters) {
    of(p.rank).alive = true;
    of(p.rank).counts = p.counts;
    of(p.rank).x = p.x;
  }
}

// A last sample of the ranks, after the drain.
void add_last_point(const Watch& watch, Summary& s) {
  RunSample last;
  last.at_s = s.seconds;
  last.gradients = s.gradients;
  last.exchanges = s.exchanges;
  last.bytes = s.bytes;
  last.loss = kNone;
  last.consensus_distance = s.consensus_distance;
  last.relative_distance = s.relative_distance;
  s.curve.push_back(std::move(last));
  if (watch.on_point) watch.on_point(s.curve.back());
}

// With equal shares no other rank takes the rest of a rank that is gone.
std::string gone_of(const Settings& settings, const Outcome& outcome) {
  const size_t here = static_cast<size_t>(ranks_here(settings)), left = outcome.parameters.size();
  const bool counts = settings.gradients > 0 && !outcome.costs.empty() && !pools(settings);
  if (!counts || outcome.failure || left >= here) return "";
  return fmt::format("{} of {} ranks here are gone", here - left, here);
}

void take_in(const Settings& settings, const Outcome& outcome, const Watch& watch,
             Summary& summary) {
  static_cast<RunTotals&>(summary) = outcome;
  summary.interrupted = watch.interrupts != nullptr && watch.interrupts->load() > 0;
  summary.virtual_clock = settings.clock == Clock::simulated;
  summary.incomplete = gone_of(settings, outcome);
  summary.cost = cost_of(outcome.costs);
  summary.payload_bytes = outcome.bytes - outcome.frames * kHeaderBytes;
  if (!summary.virtual_clock) summary.conserved_error = kNone;
  add_ranks(settings, outcome, summary);
  if (!outcome.parameters.empty()) {
    summary.consensus_distance = consensus_distance(outcome);
    summary.mean = mean_parameters(outcome);
    summary.relative_distance =
        std::sqrt(summary.consensus_distance / dot({}, summary.mean, summary.mean));
    summary.parameter_hash = parameter_hash(outcome);
    if (settings.sample_s > 0) add_last_point(watch, summary);
  }
}

}  // namespace

Result<std::shared_ptr<Objective>> make_objective_of(const Settings& settings) {
  return make_objective(settings);
}

bool is_of_own_data(const Settings& settings) {
  const ObjectiveSpec& spec = settings.objective;
  return spec.objective == "network" && is_own_data(spec.dataset);
}

uint64_t gradients_per_pass(const Objective& objective, const Settings& settings) {
  uint64_t pass = 0;
  const int walkers = settings.objective.partition == kWhole ? 1 : settings.ranks;
  for (int rank = 0; rank < walkers; ++rank)
    pass += objective.gradients_per_pass(rank);
  return pass;
}

Status take_epochs(uint64_t epochs, const Objective& objective, Settings& settings) {
  if (epochs == 0) return Done{};
  const uint64_t pass = gradients_per_pass(objective, settings);
  if (pass == 0)
    return user_error(
        fmt::format("epochs is {} with objective \"{}\", which has no data, accepted: --gradients",
                    epochs, settings.objective.objective));
  settings.gradients = epochs * pass;
  return Done{};
}

Summary execute(const Settings& settings, std::shared_ptr<Objective> objective,
                const Watch& watch) {
  Summary summary;
  const Course course{settings, watch, summary};
  const auto lane = course.lane(objective);
  const auto ran = run(settings, objective, course.hooks(objective, lane));
  course.stop(*lane);
  if (!ran) {
    summary.failure = ran.error();
    return summary;
  }
  const RunResult& result = *ran;
  const Lock lock(*course.turn);
  take_in(settings, result.outcome, watch, summary);
  summary.events = result.events;
  summary.events_per_second = result.events_per_second;
  summary.event_log_hash = result.event_log_hash;
  summary.norm_start = result.consensus_norm_start;
  summary.norm_end = result.consensus_norm_end;
  summary.reached_target = result.reached_target;
  return summary;
}

namespace {

// The samples of the ranks here, for consoles.
struct Pulse {
  double at_s = 0, gradients = 0;
  double gradients_per_second = kNone, loss = kNone, consensus_distance = kNone;
  double progress = kNone;

  Pulse after(const RunSample& sample) const {
    const auto gradients_now = static_cast<double>(sample.gradients);
    Pulse next{sample.at_s,    gradients_now, gradients_per_second, loss, sample.consensus_distance,
               sample.progress};
    if (sample.at_s > at_s)
      next.gradients_per_second = (gradients_now - gradients) / (sample.at_s - at_s);
    if (std::isfinite(sample.loss)) next.loss = sample.loss;
    return next;
  }
};

// Workers that have begun know the earlier gradients of their ranks; the others do not.
Json json_of(const Settings& s, const Pulse& p, const std::vector<WorkerReport>& workers) {
  const double horizon = static_cast<double>(s.gradients) / s.ranks;
  double gradients = 0, begun = 0;
  for (const WorkerReport& w : workers) {
    gradients += static_cast<double>(w.gradients);
    begun += w.has_begun;
  }
  double progress = kNone;
  if (s.until_s > 0) progress = p.at_s / s.until_s;
  if (std::isfinite(p.progress))
    progress = std::fmax(progress, p.progress);
  else if (horizon > 0 && begun > 0)
    progress = std::fmax(progress, gradients / (begun * horizon));
  return {{"consensus_distance_here", p.consensus_distance},
          {"loss", p.loss},
          {"gradients_per_second", p.gradients_per_second},
          {"progress", std::min(progress, 1.0)}};  // NaN, if no end is known, stays NaN
}

Json guests_json(const GuestServer& server) {
  Json scripts = Json::array();
  for (const GuestStatus& s : server.status()) {
    Json reported = Json::object();
    for (const auto& [name, m] : s.measured)
      reported[name] = {{"value", m.value}, {"steps", m.steps}};
    scripts.push_back({{"rank", s.rank},
                       {"process", s.process},
                       {"steps", s.steps},
                       {"seconds_since_step", s.since_step_s},
                       {"visits", s.sessions},
                       {"reported", std::move(reported)}});
  }
  return {{"door", server.path()}, {"scripts", std::move(scripts)}};
}

using Instant = std::chrono::steady_clock::time_point;

double since(Instant then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

// The time of the last complete checkpoint; no value: there is none.
using SavedAt = std::shared_ptr<Guarded<std::optional<Instant>>>;

SavedAt note_checkpoints(CheckpointOrders& orders) {
  const auto at = std::make_shared<Guarded<std::optional<Instant>>>();
  if (!orders.write) return at;
  orders.write = [write = std::move(orders.write), at](CheckpointPart part,
                                                       CheckpointOrders::Done done) {
    const bool is_end = part.rank == nullptr;
    write(std::move(part), [done = std::move(done), is_end, at](bool is_written, std::string told) {
      if (is_end && is_written) at->set(std::chrono::steady_clock::now());
      done(is_written, std::move(told));
    });
  };
  return at;
}

Json json_of(const ProcessFacts& facts) {
  return {{"cpu_seconds", facts.cpu_s},
          {"start_time_seconds", facts.started_s},
          {"resident_memory_bytes", facts.resident_bytes},
          {"open_fds", facts.open_files},
          {"max_fds", facts.most_files}};
}

constexpr char kAnyPort[] = "127.0.0.1:0";

Result<NodeSettings> node_settings(const PeerOptions& p) {
  NodeSettings n;
  n.run = p.run;
  n.name = p.name;
  n.listen = p.key.empty() ? p.listen : open_to_others(p.listen);
  n.advertise = p.advertise;
  n.join_is = p.join_is;
  n.no_key = p.no_key;
  std::vector<std::string> others;  // without unix sockets
  for (const std::string_view word : split(p.join, ',')) {
    if (word.empty()) continue;
    auto address = address_of_node(std::string(word));
    if (!address) return address.error();
    if (!address->starts_with("unix:")) others.push_back(*address);
    n.join.push_back(*std::move(address));
  }
  const Reach reach = p.key.empty() ? Reach::machine : Reach::network;
  const bool is_reached = reach == Reach::network || !others.empty();  // from other hosts
  if (n.listen.empty() && !p.meets_here && is_reached) {
    const std::string own = own_address_towards(others, reach);
    n.listen = own.empty() ? kAnyPort : own;
  }
  n.first_rank = p.first_rank;
  n.total_ranks = p.total_ranks;
  n.patience_s = p.patience_s;
  n.bulk_encryption = p.bulk_encryption;
  if (!p.own_key.empty()) {
    auto own = NodeKey::kept_in(p.own_key);
    if (!own) return own.error();
    n.own_key = std::make_shared<const NodeKey>(*std::move(own));
  }
  if (p.key.empty()) return n;
  auto key = RunKey::read(p.key);
  if (!key) return key.error();
  n.key = *key;
  return n;
}

// Why equal shares were not all taken; empty: they may have been.
std::string lacking(int wanted, const std::vector<std::string>& gone, const Summary& s) {
  if (!gone.empty()) return fmt::format("{} and its ranks are gone", fmt::join(gone, ", "));
  int ranks = 0;
  for (const EpochInfo& epoch : s.epochs)
    ranks = std::max(ranks, epoch.ranks);
  if (ranks == 0 || ranks >= wanted || s.resumed_at > 0) return "";  // others may have ended before
  return fmt::format("{} of {} ranks took part", ranks, wanted);
}

}  // namespace

Result<Summary> execute_node(const Settings& settings, const PeerOptions& peers,
                             const RunSettings& told, std::shared_ptr<Objective> objective,
                             std::shared_ptr<GuestServer> guests, const Watch& watch,
                             std::function<void(const std::string&)> on_listening) {
  auto node = node_settings(peers);
  if (!node) return node.error();
  node->settings = text_of(told.alike);
  node->defaults = text_of(told.defaults);
  Summary summary;
  const Course course{settings, watch, summary};
  const auto lane = course.lane(objective);
  NodeHooks hooks;
  hooks.run = course.hooks(objective, lane);
  hooks.on_listening = std::move(on_listening);
  hooks.guests = guests;
  hooks.interrupt_is_for_all = watch.interrupt_is_for_all;
  const auto pulse = std::make_shared<Guarded<Pulse>>();
  pulse->set({.gradients = static_cast<double>(summary.resumed_at)});
  hooks.run.sink.on_sample = [pulse, guests, &course,
                              told = hooks.run.sink.on_sample](const RunSample& sample) {
    pulse->set(pulse->get().after(sample));
    told(sample);
    if (guests) course.take_reported(*guests, sample.at_s, sample.gradients);
  };
  const auto alarms = std::make_shared<StandingAlarms>();
  hooks.run.sink.on_alarm = [alarms](const Alarm& alarm) { alarms->take(alarm); };
  const auto saved_at = note_checkpoints(hooks.run.checkpoints);
  hooks.render = [pulse, alarms, guests, settings, saved_at, &course](const NodeStatus& status) {
    Json object = json_of(status);
    object["process"] = json_of(process_facts());
    const auto saved = saved_at->get();
    object["checkpoint_age_seconds"] = saved ? Json(since(*saved)) : Json();
    if (guests) object["guests"] = guests_json(*guests);
    object.update(course.last_test());
    object.update(json_of(settings, pulse->get(), status.ranks.workers));
    object["alarms"] = alarms->json();
    return json_text(object);
  };
  hooks.describe_snapshot = [objective](const Mean& mean) {
    return json_text(snapshot_json(objective->layout(), objective->statistics(), mean));
  };
  hooks.read_plan = [](const std::string& text) { return plan_of_text("plan", text); };
  auto result = run_node(settings, *node, objective, std::move(hooks));
  course.stop(*lane);
  if (!result) return result.error();
  if (guests) course.take_reported(*guests, result->outcome.seconds, result->outcome.gradients);
  const Lock lock(*course.turn);
  take_in(settings, result->outcome, watch, summary);
  if (!summary.epochs.empty()) summary.seconds -= summary.epochs.front().at_s;
  summary.nodes = result->nodes;
  summary.ranks_in_mean = result->ranks;
  summary.missing = std::move(result->missing);
  summary.lost = std::move(result->lost);
  summary.departures = std::move(result->departures);
  summary.drained = result->drained;
  summary.stopped = result->stopped;
  std::vector<std::string> gone = summary.lost;
  gone.insert(gone.end(), result->left.begin(), result->left.end());
  if (!pools(settings) && settings.gradients > 0)
    summary.incomplete = lacking(settings.ranks, gone, summary);
  summary.push_weight_lost = result->mass_lost;
  if (result->mean) {
    const ConstVec mean = result->mean->vec();
    summary.mean = Buffer(mean.size, mean.dtype);
    std::memcpy(summary.mean.vec().data, mean.data, mean.bytes());
  }
  if (result->statistics) objective->set_average_statistics(result->statistics->vec());
  return summary;
}

namespace {

constexpr size_t kSampleLength = 300;  // characters or words

void judge_last(const Settings& settings, const Watch& watch, Objective& objective,
                Summary& summary) {
  const bool validated = settings.objective.validation_split > 0;
  if (!watch.tests.every) return;
  TestPoint last{summary.seconds, summary.gradients, summary.averaged, summary.validated};
  Judge judge(validated, 0, summary.best);
  judge.see(last);
  summary.best = judge.best();
  summary.tests.push_back(last);
  const Score score = score_of(last, validated);
  if (last.is_best && watch.tests.on_best)
    watch.tests.on_best(last, score, objective, std::as_const(summary.mean).vec());
  if (watch.tests.on_test) watch.tests.on_test(last, summary.best.value_or(score));
}

}  // namespace

void evaluate(const Settings& settings, const Watch& watch, Objective& objective,
              Summary& summary) {
  std::vector<int> alive;
  for (size_t r = 0; r < summary.ranks.size(); ++r)
    if (summary.ranks[r].alive) alive.push_back(static_cast<int>(r));
  summary.by_rank.resize(alive.size());
  if (alive.empty()) return;
  std::atomic<size_t> next{0};  // 0: the averaged model
  auto work = [&](int thread) {
    for (size_t k = next++; k <= alive.size(); k = next++) {
      if (k == 0) {
        const ConstVec mean = std::as_const(summary.mean).vec();
        summary.averaged = objective.evaluate(thread, -1, mean);
        summary.validated = objective.validate(thread, -1, mean);
      } else {
        const int rank = alive[k - 1];
        const Buffer& x = *summary.ranks[static_cast<size_t>(rank)].x;
        const int shard = (summary.first_rank + rank) % settings.ranks;
        summary.by_rank[k - 1] = objective.evaluate(thread, shard, x.vec());
      }
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int t = 1; t < compute_threads(settings); ++t)
      threads.emplace_back(work, t);
  } catch (const std::system_error&) {  // the threads that could start do all the work
  }
  work(0);
  for (std::thread& thread : threads)
    thread.join();
  if (!watch.sample.empty())
    summary.sample = objective.write_on(0, std::as_const(summary.mean).vec(), watch.sample,
                                        kSampleLength, settings.seed);
  summary.worst_rank_accuracy = summary.by_rank.front().accuracy;
  for (const Evaluation& e : summary.by_rank)
    summary.worst_rank_accuracy = std::min(summary.worst_rank_accuracy, e.accuracy);
  judge_last(settings, watch, objective, summary);
}

std::string runtime_version() {
  return fmt::format("{}.{}.{}", CAF_MAJOR_VERSION, CAF_MINOR_VERSION, CAF_PATCH_VERSION);
}

}  // namespace grapevine
