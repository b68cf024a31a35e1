#include "app/metrics/metrics_text.hpp"

#include <fmt/core.h>

#include <cmath>

#include "actors/settings/alarm.hpp"

namespace grapevine {
namespace {

// One family after the other: its type, its help, then its series.
class Page {
 public:
  explicit Page(MetricsFormat format) : open_(format == MetricsFormat::open_metrics) {}

  /// `kind`: gauge, counter, histogram or info. The name is without _total and _info.
  void family(const char* name, const char* kind, const char* help) {
    name_ = fmt::format("grapevine_{}", name);
    const std::string type = kind;
    const char* ending = type == "counter" ? "_total" : type == "info" ? "_info" : "";
    // The older format has no info, and gives a family the name of its series.
    const std::string family = open_ ? name_ : name_ + ending;
    name_ += ending;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family, help, family,
                         !open_ && type == "info" ? "gauge" : type);
  }
  void series(const std::string& labels, const Json& value) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) return;
    const std::string in_braces = labels.empty() ? "" : fmt::format("{{{}}}", labels);
    text_ += fmt::format("{}{} {}\n", name_, in_braces, value.dump());
  }
  /// A histogram: `counts` by bucket, one more than there are bounds.
  void histogram(const std::string& labels, const Json& bounds, const Json& counts,
                 const Json& sum) {
    const std::string family = name_, more = labels.empty() ? "" : labels + ",";
    uint64_t below = 0;
    name_ = family + "_bucket";
    for (size_t k = 0; k < counts.size(); ++k) {
      below += counts[k].get<uint64_t>();
      const std::string bound = k < bounds.size() ? bounds[k].dump() : "+Inf";
      series(fmt::format("{}le=\"{}\"", more, bound), below);
    }
    name_ = family + "_sum";
    series(labels, sum);
    name_ = family + "_count";
    series(labels, below);
    name_ = family;
  }
  std::string end() { return text_ + (open_ ? "# EOF\n" : ""); }

 private:
  bool open_;
  std::string name_, text_;
};

struct Row {  // a family, and its key in the status
  const char *name, *key, *help, *kind = "counter";
};

std::string label(const char* name, const std::string& value) {
  std::string text = fmt::format("{}=\"", name);
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

void add_run(Page& page, const Json& s) {
  page.family("node", "info", "Name of this node, version of the program, and graph.");
  page.series(label("node", s.at("node")) + "," + label("version", GRAPEVINE_VERSION) + "," +
                  label("graph", s.at("graph")),
              1);
  constexpr Row kGauges[] = {
      {"uptime_seconds", "uptime_seconds", "Seconds since the process started."},
      {"epoch", "epoch", "Epoch of the graph and its members; every change raises it."},
      {"ranks", "graph_ranks", "Ranks in the graph."},
      {"chi1", "chi1", "chi1, the relaxation time of the graph."},
      {"chi2", "chi2", "chi2, half the largest effective resistance of the graph."},
      {"eta", "eta", "eta, the rate of the continuous momentum."},
      {"constants_age_seconds", "constants_age_seconds",
       "Seconds since chi1, chi2 and eta were computed."},
      {"loss", "loss", "Mean loss of the gradients of the ranks here since the last sample."},
      {"learning_rate", "learning_rate", "Learning rate of the newest gradient of a rank here."},
      {"test_accuracy", "accuracy", "Accuracy of the mean of the ranks here at its last test."},
      {"test_loss", "test_loss", "Loss of the mean of the ranks here at its last test."},
      {"validation_accuracy", "validation_accuracy",
       "The same accuracy, on the validation samples."},
      {"validation_loss", "validation_loss", "The same loss, on the validation samples."},
      {"progress_ratio", "progress", "Progress of the run, 0 to 1."},
      {"gradients_per_second", "gradients_per_second",
       "Gradients per second of the ranks here, between two samples."},
      {"consensus_distance", "consensus_distance",
       "Estimated consensus distance: half the mean squared distance over the edges here."},
      {"checkpoint_age_seconds", "checkpoint_age_seconds",
       "Seconds since the last complete checkpoint."},
      {"consensus_distance_here", "consensus_distance_here",
       "Consensus distance of the ranks here."},
  };
  for (const Row& g : kGauges) {
    if (!s.contains(g.key) || !s.at(g.key).is_number()) continue;
    page.family(g.name, "gauge", g.help);
    page.series("", s.at(g.key));
  }
  constexpr Row kOfProcess[] = {
      {"process_cpu_seconds", "cpu_seconds", "CPU time of this process, all threads together."},
      {"process_start_time_seconds", "start_time_seconds",
       "Start of this process, in seconds since 1970.", "gauge"},
      {"process_resident_memory_bytes", "resident_memory_bytes", "Resident memory of this process.",
       "gauge"},
      {"process_open_fds", "open_fds", "Open file descriptors of this process.", "gauge"},
      {"process_max_fds", "max_fds", "Largest number of open file descriptors.", "gauge"},
  };
  for (const Row& row : kOfProcess) {
    if (!s.contains("process")) break;
    page.family(row.name, row.kind, row.help);
    page.series("", s.at("process").value(row.key, Json()));
  }
  page.family("alarms", "gauge", "Active alarms by kind; grapevine ctl status has their lines.");
  for (const Alarm::What kind : kAlarms) {
    // A sum over all ranks, which no node knows: only the virtual clock audits it.
    if (kind == Alarm::What::conserved_sum) continue;
    int count = 0;
    for (const Json& alarm : s.value("alarms", Json::array()))
      count += alarm.at("kind") == name_of(kind);
    page.series(label("kind", name_of(kind)), count);
  }
  page.family("members", "gauge", "Nodes that this one knows, by state.");
  for (const char* state : {"alive", "suspect", "dead", "left"}) {
    int count = 0;
    for (const Json& m : s.at("members"))
      count += m.at("state") == state;
    page.series(label("state", state), count);
  }
}

void add_ranks(Page& page, const Json& s) {
  constexpr Row kCounters[] = {
      {"gradients", "gradients", "Gradient steps of a rank here."},
      {"exchanges", "exchanges", "Exchanges or round messages applied by a rank here."},
      {"idle_seconds", "idle_seconds",
       "Seconds in which a rank neither computed nor waited for a compute thread."},
      {"alive_seconds", "alive_seconds", "Seconds since a rank here started."},
  };
  for (const Row& c : kCounters) {
    if (!s.contains(c.key)) continue;
    page.family(c.name, c.kind, c.help);
    for (size_t k = 0; k < s.at(c.key).size(); ++k)
      page.series(label("rank", s.at("ranks_here").at(k).dump()), s.at(c.key).at(k));
  }
}

void add_reported(Page& page, const Json& s) {
  if (!s.contains("guests")) return;
  page.family("reported", "gauge", "What the script of a rank here has measured, as it names it.");
  for (const Json& script : s.at("guests").at("scripts"))
    for (const auto& [name, said] : script.at("reported").items())
      page.series(label("rank", script.at("rank").dump()) + "," + label("name", name),
                  said.at("value"));
}

void add_cost(Page& page, const Json& s) {
  const Json cost = s.value("cost", Json());
  if (!cost.is_object()) return;
  page.family("efficiency_ratio", "gauge", "Of the time so far: work of the ranks here, 0 to 1.");
  page.series("", cost.at("efficiency"));
  page.family("cost_seconds", "gauge",
              "Seconds of the ranks here so far, by what they were spent on.");
  for (const auto& [part, seconds] : cost.at("parts").items())
    page.series(label("part", part), seconds);
}

void add_edges(Page& page, const Json& s) {
  constexpr Row kRows[] = {
      {"edge_exchanges", "exchanges", "Exchanges on an edge of a rank here."},
      {"edge_bytes", "bytes", "Bytes that the ranks here sent on an edge."},
      {"edge_declined", "declined", "Declined offers on an edge."},
      {"edge_exchanges_per_second", "exchanges_per_second",
       "Measured exchanges per second on an edge.", "gauge"},
      {"edge_distance", "distance", "Distance of the two models of an edge at the last exchange.",
       "gauge"},
      {"edge_staleness_seconds", "staleness_seconds", "Seconds since the last exchange on an edge.",
       "gauge"},
      {"edge_round_trip_seconds", "round_trip_seconds",
       "Round trip of the link that carries an edge.", "gauge"},
  };
  for (const Row& row : kRows) {
    page.family(row.name, row.kind, row.help);
    for (const Json& e : s.at("edges"))
      if (e.at("in_graph").get<bool>())
        page.series(label("rank", e.at("ranks").at(0).dump()) + "," +
                        label("peer", e.at("ranks").at(1).dump()),
                    e.at(row.key));
  }
}

void add_reasons(Page& page, const char* name, const char* help, const Json& counts) {
  page.family(name, "counter", help);
  for (const auto& [reason, count] : counts.items())
    page.series(label("reason", reason), count);
}

void add_round_trips(Page& page, const Json& s) {
  const Json& found = s.at("round_trips");
  page.family("offer_round_trip_seconds", "histogram",
              "Time from an offer of a rank here to the answer, for offers that were sent once.");
  page.histogram("", found.at("bounds"), found.at("counts"), found.at("sum_seconds"));
  page.family("edge_offer_round_trip_seconds", "histogram",
              "Time from an offer to the answer, by edge; edges beyond the first 64 together as "
              "\"other\".");
  for (const Json& edge : s.at("edge_round_trips")) {
    const Json& ranks = edge.at("ranks");
    const std::string rank = ranks.is_null() ? "other" : ranks.at(0).dump();
    const std::string peer = ranks.is_null() ? "other" : ranks.at(1).dump();
    page.histogram(label("rank", rank) + "," + label("peer", peer), found.at("bounds"),
                   edge.at("counts"), edge.at("sum_seconds"));
  }
}

void add_links(Page& page, const Json& s) {
  page.family("links", "gauge", "Links to other nodes.");
  page.series("", s.at("links").size());
  page.family("link_bytes", "counter",
              "Bytes over all links since the node started, by direction.");
  for (const char* way : {"sent", "received"})
    page.series(label("direction", way), s.at("link_totals").at(fmt::format("bytes_{}", way)));
  const Json& refusals = s.at("refusals");
  add_reasons(page, "offers_declined", "Declined offers, by reason.",
              refusals.at("declined_because"));
  add_reasons(page, "refused", "Messages that the links rejected, by reason.",
              refusals.at("by_links"));
  add_reasons(page, "frames_lost", "Frames that did not arrive, by reason.", s.at("frames_lost"));
  constexpr Row kCounters[] = {
      {"protocol_errors", "protocol_errors", "Frames that break the protocol."},
      {"exchanges_clipped", "exchanges_clipped",
       "Exchanges that the guard scaled because the ranks were far apart."},
      {"exchanges_not_finite", "exchanges_not_finite",
       "Exchanges that were not used because their values were not finite."},
      {"exchanges_broken_before", "exchanges_broken_before",
       "Exchanges whose peer died before they were applied."},
      {"exchanges_broken_after", "exchanges_broken_after",
       "Exchanges applied here whose peer died; the other half may be missing."},
  };
  for (const Row& c : kCounters) {
    page.family(c.name, c.kind, c.help);
    page.series("", refusals.at(c.key));
  }
}

}  // namespace

MetricsFormat metrics_format(const std::string& accept) {
  return accept.find("application/openmetrics-text") == accept.npos ? MetricsFormat::prometheus
                                                                    : MetricsFormat::open_metrics;
}

const char* content_type(MetricsFormat format) {
  return format == MetricsFormat::open_metrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string metrics_text(const Json& status, MetricsFormat format) {
  Page page(format);
  add_run(page, status);
  add_ranks(page, status);
  add_cost(page, status);
  add_reported(page, status);
  add_edges(page, status);
  add_round_trips(page, status);
  add_links(page, status);
  return page.end();
}

}  // namespace grapevine
