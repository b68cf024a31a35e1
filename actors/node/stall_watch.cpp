#include "actors/node/stall_watch.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace grapevine {

namespace {

constexpr double kIntervals = 50;
constexpr double kCounted = 30, kStale = 4, kAsBefore = 2;
constexpr double kIdle = 0.5, kBusyAgain = 0.3;

std::string seconds_of(double s) { return fmt::format("{:.3g} s", s); }

}  // namespace

std::vector<Alarm> StallWatch::measure(double now, const std::vector<CommunicatorReport>& ranks,
                                       const std::vector<WorkerReport>& workers) {
  if (begun_at_ < 0) begun_at_ = measured_at_ = now;
  const bool stood_still = now - measured_at_ > 3 * period_s();
  measured_at_ = now;

  const double exchange_s = std::max(run_.exchange_s, measured_exchange_s(ranks));
  for (auto& [ends, edge] : edges_) {
    edge.neighbours = 0;
    edge.exchanges = 0;
    edge.limit_s = 0;  // by the present interval: a slow start does not count
    if (!stood_still) continue;
    if (!edge.told) edge.since = now;
    edge.pace.neighbours = 0;
  }
  for (const CommunicatorReport& c : ranks)
    note(now, c, exchange_s);
  if (!run_.waits)
    for (auto& [ends, edge] : edges_)
      measure(edge);

  std::vector<Alarm> alarms;
  for (auto& [ends, edge] : edges_) {
    judge(now, ends, edge, alarms);
    judge_pace(now, ends, edge, alarms);
  }
  std::erase_if(edges_, [](const auto& e) { return !e.second.seen(); });
  for (const WorkerReport& w : workers)
    if (!run_.paced) judge(now, w, alarms);
  return alarms;
}

// Until the last exchange: a silence does not make exchanges rarer.
double StallWatch::measured_exchange_s(const std::vector<CommunicatorReport>& ranks) const {
  double count = 0, last_at = begun_at_;
  for (const CommunicatorReport& c : ranks) {
    count += static_cast<double>(c.counts.applied) / static_cast<double>(ranks.size());
    for (const EdgeCount& e : c.edges)
      last_at = std::max(last_at, e.applied_at);
  }
  return count > 0 ? (last_at - begun_at_) / count : 0;
}

void StallWatch::note(double now, const CommunicatorReport& c, double exchange_s) {
  const auto degree =
      std::count_if(c.edges.begin(), c.edges.end(), [](const EdgeCount& e) { return e.in_graph; });
  const double interval_s = static_cast<double>(degree) * exchange_s;
  for (const EdgeCount& e : c.edges) {
    if (!e.in_graph) continue;
    const auto [at, added] = edges_.try_emplace(std::minmax(c.rank, e.peer));
    Edge& edge = at->second;
    if (added) edge.since = now;
    edge.last_at = std::max(edge.last_at, e.applied_at);
    edge.limit_s = std::max({edge.limit_s, run_.patience_s, kIntervals * interval_s});
    edge.neighbours += static_cast<int>(degree);
    edge.exchanges = std::max(edge.exchanges, e.applied);
  }
}

bool StallWatch::hears_nobody(int rank, double now) const {
  return std::all_of(edges_.begin(), edges_.end(), [&](const auto& e) {
    const auto& [ends, edge] = e;
    const bool other = ends.first != rank && ends.second != rank;
    return other || edge.silence_s(now) > edge.limit_s / 2;
  });
}

void StallWatch::judge(double now, const Ends& ends, Edge& edge, std::vector<Alarm>& alarms) const {
  const double silence_s = edge.silence_s(now);
  const bool silent = edge.seen() && silence_s > edge.limit_s;
  if (silent == edge.told) return;
  edge.told = silent;
  Alarm alarm;
  alarm.what = Alarm::What::silent_edge;
  alarm.over = !silent;
  alarm.rank = ends.first;
  alarm.peer = ends.second;
  alarm.at_s = now;
  if (alarm.over) {
    alarm.is = edge.seen() ? "it exchanges again" : "it has left the graph";
  } else {
    alarm.is =
        (edge.last_at < 0 ? "no exchange yet, for " : "no exchange for ") + seconds_of(silence_s);
    const bool first = hears_nobody(ends.first, now), second = hears_nobody(ends.second, now);
    alarm.reason = first == second ? "messages between the two are lost or refused"
                                   : fmt::format(
                                         "rank {} exchanges with no other rank: it is paused, or "
                                         "its network is cut",
                                         first ? ends.first : ends.second);
    alarm.advice = "grapevine ctl status shows the state of links, and refusals by reason";
  }
  alarms.push_back(std::move(alarm));
}

// Measures from one exchange to another, because the silence has its own alarm. A new number of
// neighbours changes the shares of a rank's exchanges, and a new life counts from zero.
void StallWatch::measure(Edge& edge) const {
  Pace& pace = edge.pace;
  const bool another = edge.neighbours != pace.neighbours || edge.exchanges < pace.from;
  if (another || edge.told) {
    pace = {.from_s = edge.last_at,
            .from = edge.exchanges,
            .neighbours = edge.neighbours,
            .told = pace.told};
    return;
  }
  const double lasted_s = edge.last_at - pace.from_s;
  const auto count = static_cast<double>(edge.exchanges - pace.from);
  const bool enough = pace.best_s > 0 ? lasted_s >= kCounted * pace.best_s : count >= kCounted;
  if (count < 1 || lasted_s < 2 * run_.patience_s || !enough) return;
  pace.interval_s = lasted_s / count;
  pace.best_s = pace.best_s > 0 ? std::min(pace.best_s, pace.interval_s) : pace.interval_s;
  pace.from_s = edge.last_at;
  pace.from = edge.exchanges;
}

bool StallWatch::is_slow_with_all(int rank) const {
  return std::all_of(edges_.begin(), edges_.end(), [&](const auto& e) {
    const auto& [ends, edge] = e;
    const bool other = ends.first != rank && ends.second != rank;
    return other || edge.pace.is_slower(kAsBefore);
  });
}

void StallWatch::judge_pace(double now, const Ends& ends, Edge& edge,
                            std::vector<Alarm>& alarms) const {
  Pace& pace = edge.pace;
  if (pace.is_slower(pace.told ? kAsBefore : kStale) == pace.told) return;
  pace.told = !pace.told;
  Alarm alarm;
  alarm.what = Alarm::What::stale_edge;
  alarm.over = !pace.told;
  alarm.rank = ends.first;
  alarm.peer = ends.second;
  alarm.at_s = now;
  if (!alarm.over) {
    alarm.is =
        fmt::format("its exchanges have become rare: one every {}, where one every {} is usual",
                    seconds_of(pace.interval_s), seconds_of(pace.best_s));
    const bool first = is_slow_with_all(ends.first), second = is_slow_with_all(ends.second);
    alarm.reason = first == second ? "messages between the two are lost, declined or slow"
                                   : fmt::format(
                                         "rank {} is slower with all its neighbours: its gradients "
                                         "or its network have become slower",
                                         first ? ends.first : ends.second);
    alarm.advice =
        "grapevine ctl status shows the pace of each rank, and declined and lost messages";
  } else if (!edge.seen()) {
    alarm.is = "it has left the graph";
  } else {
    alarm.is =
        pace.best_s > 0 ? "it exchanges as often as before" : "its usual pace is measured again";
  }
  alarms.push_back(std::move(alarm));
}

void StallWatch::judge(double now, const WorkerReport& w, std::vector<Alarm>& alarms) {
  const auto [at, added] = lives_.try_emplace(w.rank);
  Life& life = at->second;
  if (added || w.alive_s < life.alive_s || w.stands) {  // another rank has its number now
    life.idle_s = w.idle_s;
    life.alive_s = w.alive_s;
    return;
  }
  const double lived_s = w.alive_s - life.alive_s;
  if (lived_s < 2 * run_.patience_s) return;
  const double idle = (w.idle_s - life.idle_s) / lived_s;
  life.idle_s = w.idle_s;
  life.alive_s = w.alive_s;
  Alarm alarm;
  alarm.what = Alarm::What::idle_rank;
  alarm.rank = w.rank;
  alarm.at_s = now;
  if (!life.told && idle > kIdle) {
    alarm.is =
        fmt::format("it waited for {:.0f} % of the last {}", 100 * idle, seconds_of(lived_s));
    alarm.reason = run_.waits ? "the method waits for the messages of slower neighbours"
                              : "exchanges and updates take longer than gradients";
    alarm.advice = run_.waits ? "a method that does not wait, such as --method a2cid2"
                              : "fewer ranks in this process, or a lower --rate";
  } else if (life.told && idle < kBusyAgain) {
    alarm.is = "it computes again";
    alarm.over = true;
  } else {
    return;
  }
  life.told = !alarm.over;
  alarms.push_back(std::move(alarm));
}

}  // namespace grapevine
