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
    // The older format knows no info, and calls a family by its series.
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
  /// Of a histogram: `counts` by bucket, one more than there are bounds.
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

struct Row {  // a family, and where the status has it
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
  page.family("node", "info", "Its own name, the program's version and the graph.");
  page.series(label("node", s.at("node")) + "," + label("version", GRAPEVINE_VERSION) + "," +
                  label("graph", s.at("graph")),
              1);
  constexpr Row kGauges[] = {
      {"uptime_seconds", "uptime_seconds", "Since the process began."},
      {"epoch", "epoch", "Raised by every change of the members or of the graph."},
      {"ranks", "graph_ranks", "In the graph."},
      {"chi1", "chi1", "The graph's relaxation time."},
      {"chi2", "chi2", "The graph's largest effective resistance, halved."},
      {"eta", "eta", "Rate of the continuous momentum."},
      {"constants_age_seconds", "constants_age_seconds", "Since chi1, chi2 and eta were found."},
      {"loss", "loss", "Mean over the gradients of the ranks here since the last sample."},
      {"learning_rate", "learning_rate", "Of the newest gradient of a rank here."},
      {"test_accuracy", "accuracy", "Of the mean of the ranks here, when it was tested last."},
      {"test_loss", "test_loss", "Likewise."},
      {"validation_accuracy", "validation_accuracy", "Likewise, on what was set aside."},
      {"validation_loss", "validation_loss", "Likewise."},
      {"progress_ratio", "progress", "Of the run: 0 to 1."},
      {"gradients_per_second", "gradients_per_second", "Of the ranks here, between two samples."},
      {"consensus_distance", "consensus_distance", "Half the mean square distance over edges."},
      {"checkpoint_age_seconds", "checkpoint_age_seconds", "Since the last that was whole."},
      {"consensus_distance_here", "consensus_distance_here", "Mean over the ranks here."},
  };
  for (const Row& g : kGauges) {
    if (!s.contains(g.key) || !s.at(g.key).is_number()) continue;
    page.family(g.name, "gauge", g.help);
    page.series("", s.at(g.key));
  }
  constexpr Row kOfProcess[] = {
      {"process_cpu_seconds", "cpu_seconds", "Computed by this process, all threads together."},
      {"process_start_time_seconds", "start_time_seconds", "Since 1970.", "gauge"},
      {"process_resident_memory_bytes", "resident_memory_bytes", "Of this process.", "gauge"},
      {"process_open_fds", "open_fds", "Descriptors of this process.", "gauge"},
      {"process_max_fds", "max_fds", "That it may have.", "gauge"},
  };
  for (const Row& row : kOfProcess) {
    if (!s.contains("process")) break;
    page.family(row.name, row.kind, row.help);
    page.series("", s.at("process").value(row.key, Json()));
  }
  page.family("alarms", "gauge", "That stand, by kind: grapevine ctl status has their lines.");
  for (const Alarm::What kind : kAlarms) {
    // A sum over all ranks, which no node sees: the virtual clock alone audits it.
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
      {"gradients", "gradients", "Steps of a rank here."},
      {"exchanges", "exchanges", "Messages of a rank here that moved its model."},
      {"idle_seconds", "idle_seconds", "Neither computing nor queued for a compute thread."},
      {"alive_seconds", "alive_seconds", "Since a rank here began."},
  };
  for (const Row& c : kCounters) {
    if (!s.contains(c.key)) continue;
    page.family(c.name, c.kind, c.help);
    for (size_t k = 0; k < s.at(c.key).size(); ++k)
      page.series(label("rank", s.at("ranks_here").at(k).dump()), s.at(c.key).at(k));
  }
}

void add_edges(Page& page, const Json& s) {
  constexpr Row kRows[] = {
      {"edge_exchanges", "exchanges", "Exchanges on an edge of a rank here."},
      {"edge_bytes", "bytes", "Sent by the ranks here."},
      {"edge_declined", "declined", "Offers on it that were declined."},
      {"edge_exchanges_per_second", "exchanges_per_second", "As measured.", "gauge"},
      {"edge_distance", "distance", "Between its two models, at the last exchange.", "gauge"},
      {"edge_staleness_seconds", "staleness_seconds", "Since the last exchange.", "gauge"},
      {"edge_round_trip_seconds", "round_trip_seconds", "Of the link that carries it.", "gauge"},
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
              "From an offer of a rank here to the answer, where it was asked once.");
  page.histogram("", found.at("bounds"), found.at("counts"), found.at("sum_seconds"));
  page.family("edge_offer_round_trip_seconds", "histogram",
              "The same by edge; of those that came late, together as \"other\".");
  for (const Json& edge : s.at("edge_round_trips")) {
    const Json& ranks = edge.at("ranks");
    const std::string rank = ranks.is_null() ? "other" : ranks.at(0).dump();
    const std::string peer = ranks.is_null() ? "other" : ranks.at(1).dump();
    page.histogram(label("rank", rank) + "," + label("peer", peer), found.at("bounds"),
                   edge.at("counts"), edge.at("sum_seconds"));
  }
}

void add_links(Page& page, const Json& s) {
  page.family("links", "gauge", "To other nodes.");
  page.series("", s.at("links").size());
  page.family("link_bytes", "counter", "Over all links since the node began, by direction.");
  for (const char* way : {"sent", "received"})
    page.series(label("direction", way), s.at("link_totals").at(fmt::format("bytes_{}", way)));
  const Json& refusals = s.at("refusals");
  add_reasons(page, "offers_declined", "Offers, by reason.", refusals.at("declined_because"));
  add_reasons(page, "refused", "What links brought and was not believed, by reason.",
              refusals.at("by_links"));
  add_reasons(page, "frames_lost", "Frames that did not arrive, by reason.", s.at("frames_lost"));
  constexpr Row kCounters[] = {
      {"protocol_errors", "protocol_errors", "Frames that no honest peer sends."},
      {"exchanges_clipped", "exchanges_clipped",
       "Of ranks far apart, which moved less than whole."},
      {"exchanges_not_finite", "exchanges_not_finite", "That were not used: not finite."},
      {"exchanges_broken_before", "exchanges_broken_before", "Whose other end died, not applied."},
      {"exchanges_broken_after", "exchanges_broken_after", "Whose other end died, applied here."},
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
  add_edges(page, status);
  add_round_trips(page, status);
  add_links(page, status);
  return page.end();
}

}  // namespace grapevine
