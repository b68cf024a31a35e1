#include "app/compare/report.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "app/compare/curves.hpp"
#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"

namespace grapevine {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Losses of language models differ in the third digit.
std::string as_loss(double loss) { return fmt::format("{:.4g}", loss); }

// A number that every run has or may have.
struct Figure {
  const char* name;     // in JSON
  const char* heading;  // in the table; null: not in the table
  std::string (*text)(double);
  bool deviation;  // shown in the table
};

const Figure kFigures[] = {
    {"accuracy", "accuracy", as_percent, true},
    {"worst_rank_accuracy", "worst rank", as_percent, false},
    {"test_loss", "loss", as_loss, true},
    {"suboptimality", "suboptimality", as_short, true},
    {"consensus_distance", "consensus", as_short, false},
    {"messages", "messages", with_commas, false},
    {"bytes", "bytes", as_bytes, false},
    {"payload_bytes", nullptr, as_bytes, false},
    {"virtual_seconds", "time", as_seconds, false},
    {"seconds_to_target", "time to it", as_seconds, false},
    {"bytes_to_target", "bytes to it", as_bytes, false},
};
constexpr size_t kCount = std::size(kFigures), kToTarget = kCount - 2;
constexpr size_t kLoss = 2, kSuboptimality = 3;

std::vector<double> figures_of(const Job& job, const Json& record) {
  std::vector<double> figures(kCount, kNone);
  if (record.is_null()) return figures;
  const Json& result = record.at("result");
  for (size_t k = 0; k < kToTarget; ++k)
    figures[k] = number_in(result, kFigures[k].name);
  // The loss of an analytic objective is its suboptimality. Gossip alone has neither.
  const std::string& measure = job.measure.name;
  if (measure == "suboptimality" || measure == "consensus_distance") figures[kLoss] = kNone;
  if (measure == "consensus_distance") figures[kSuboptimality] = kNone;
  for (const ErrorPoint& p : error_curve(job.measure, result)) {
    if (!job.measure.reached(p.value, job.target)) continue;
    figures[kToTarget] = p.at_s;
    figures[kToTarget + 1] = p.bytes;
    break;
  }
  return figures;
}

MeanAndDeviation mean_of(const std::vector<double>& all) {
  std::vector<double> values;
  for (const double x : all)
    if (std::isfinite(x)) values.push_back(x);
  if (values.empty()) return {kNone, kNone};
  const auto n = static_cast<double>(values.size());
  MeanAndDeviation out;
  for (const double x : values)
    out.mean += x / n;
  for (const double x : values)
    out.deviation += (x - out.mean) * (x - out.mean);
  out.deviation = values.size() > 1 ? std::sqrt(out.deviation / (n - 1)) : 0;
  return out;
}

void finish_group(const std::vector<std::vector<double>>& runs, GroupFigures& g) {
  g.runs = runs.size();
  for (size_t k = 0; k < kCount; ++k) {
    std::vector<double> values;
    for (const auto& run : runs)
      values.push_back(run[k]);
    g.of.push_back(mean_of(values));
    if (k == kToTarget)
      g.reached = static_cast<size_t>(
          std::count_if(values.begin(), values.end(), [](double x) { return std::isfinite(x); }));
  }
}

std::string cell_text(const Figure& figure, const MeanAndDeviation& value, size_t runs) {
  if (!std::isfinite(value.mean)) return "-";
  std::string text = figure.text(value.mean);
  if (figure.deviation && runs > 1) text += " +- " + figure.text(value.deviation);
  return text;
}

// If columns do not fit into the terminal, they follow below, in blocks that repeat the first
// column.
void print_rows(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t k = 0; k < row.size(); ++k)
      widths[k] = std::max(widths[k], row[k].size());
  winsize size{};
  const bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const size_t room = terminal ? size.ws_col : std::numeric_limits<size_t>::max();
  for (size_t first = 1; first < rows[0].size();) {
    size_t end = first + 1, used = 2 + widths[0] + 2 + widths[first];
    while (end < widths.size() && used + 2 + widths[end] < room)
      used += 2 + widths[end++];
    if (first > 1) std::printf("\n");
    for (const auto& row : rows) {
      std::printf("  %-*s", static_cast<int>(widths[0]), row[0].c_str());
      for (size_t k = first; k < end; ++k)
        std::printf("  %*s", static_cast<int>(widths[k]), row[k].c_str());
      std::printf("\n");
    }
    first = end;
  }
}

size_t figure_of(const Job& job) {
  size_t k = 0;
  while (job.measure.name != kFigures[k].name)
    ++k;
  return k;
}

std::string target_text(const Job& job) {
  const char* than = job.measure.more_is_better ? " of " : " of at most ";
  std::string name = job.measure.name;
  std::replace(name.begin(), name.end(), '_', ' ');
  return name + than + kFigures[figure_of(job)].text(job.target);
}

// As the run reported them, so that counts stay integers.
Json json_of_figures(const std::vector<double>& figures, const Json& record) {
  Json object = Json::object();
  for (size_t k = 0; k < kCount; ++k) {
    const bool said = k < kToTarget && std::isfinite(figures[k]);
    object[kFigures[k].name] = said ? record.at("result").at(kFigures[k].name) : Json(figures[k]);
  }
  return object;
}

// Includes a method's own scaling of the learning rate, which the settings do not show: relay-lr is
// on by default and only two methods use it (relaysgd.hpp).
std::string pacing_of(const Cell& cell) {
  const Settings& s = cell.options.settings;
  std::string text = json_of(cell.options).at("pacing");
  if (s.rule.relay_lr && (s.method == "relaysgd" || s.method == "relaysgd_async"))
    text += ", relay-lr";
  return text;
}

Json cells_json(const Job& job, const JobOutcome& outcome, const Comparison& comparison) {
  Json cells = Json::array();
  for (size_t k = 0; k < job.cells.size(); ++k) {
    const Cell& cell = job.cells[k];
    const CellOutcome& run = outcome.cells[k];
    const Settings& s = cell.options.settings;
    Json object = {{"label", cell.label},
                   {"group", cell.group},
                   {"method", s.method},
                   {"topology", s.topology},
                   {"ranks", s.ranks},
                   {"partition", s.objective.partition},
                   {"pacing", pacing_of(cell)},
                   {"seed", s.seed},
                   {"finished", !run.record.is_null()},
                   {"reused", run.reused},
                   {"file", cell.id + ".json"},
                   {"settings", settings_of(cell)}};
    object.update(json_of_figures(comparison.cells[k], run.record));
    if (!run.record.is_null()) {
      for (const char* name : {"parameter_hash", "event_log_hash"})
        object[name] = run.record.at("result").value(name, "");
      object["wall_seconds"] = run.record.value("wall_seconds", kNone);
    }
    if (!run.complaint.empty()) object["failure"] = run.complaint;
    cells.push_back(std::move(object));
  }
  return cells;
}

std::vector<BestStepSize> best_step_sizes(const Job& job, const std::vector<GroupFigures>& groups) {
  struct Tried {
    BestStepSize best;
    double value = kNone, least = 0, most = 0;
    size_t rates = 0;
  };
  std::vector<Tried> all;
  for (size_t g = 0; g < groups.size(); ++g) {
    const double lr = number_in(groups[g].settings, "lr");
    const double value = groups[g].of[figure_of(job)].mean;
    if (!std::isfinite(lr)) continue;
    Json others = groups[g].settings;
    others.erase("lr");
    const auto same = [&](const Tried& t) {
      return t.best.label == groups[g].label && t.best.settings == others;
    };
    auto tried = std::find_if(all.begin(), all.end(), same);
    if (tried == all.end())
      tried = all.insert(all.end(), {{groups[g].label, others, lr, g, false}, value, lr, lr, 0});
    ++tried->rates;
    tried->least = std::min(tried->least, lr);
    tried->most = std::max(tried->most, lr);
    const bool better = job.measure.more_is_better ? value > tried->value : value < tried->value;
    if (!better && !(std::isfinite(value) && !std::isfinite(tried->value))) continue;
    tried->value = value;
    tried->best.lr = lr;
    tried->best.group = g;
  }
  std::vector<BestStepSize> best;
  for (Tried& t : all) {
    if (t.rates < 2) continue;
    t.best.at_end = t.best.lr == t.least || t.best.lr == t.most;
    best.push_back(std::move(t.best));
  }
  return best;
}

// The pacing is shown if it differs between methods, because it affects the comparison.
std::vector<std::string> pacing_column(const Comparison& comparison) {
  std::vector<std::string> column{"pacing"};
  bool differs = false;
  for (const GroupFigures& g : comparison.groups) {
    column.push_back(g.pacing);
    differs = differs || g.pacing != comparison.groups[0].pacing;
  }
  return differs ? column : std::vector<std::string>();
}

}  // namespace

Comparison compare_cells(const Job& job, const JobOutcome& outcome, const std::string& folder) {
  Comparison made;
  made.folder = folder;
  for (const CellOutcome& cell : outcome.cells)
    made.cells.push_back(figures_of(job, cell.record));
  for (size_t k = 0; k < job.cells.size();) {
    const Cell& first = job.cells[k];
    GroupFigures g{first.group, first.label, pacing_of(first), settings_of(first), 0, 0, {}};
    g.settings.erase("seed");
    std::vector<std::vector<double>> runs;
    for (; k < job.cells.size() && job.cells[k].group == g.group; ++k)
      if (!outcome.cells[k].record.is_null()) runs.push_back(made.cells[k]);
    if (runs.empty()) continue;
    finish_group(runs, g);
    made.groups.push_back(std::move(g));
  }
  made.best = best_step_sizes(job, made.groups);
  return made;
}

std::string comparison_csv(const Job& job, const Comparison& comparison) {
  std::string text = "label,group,method,topology,ranks,partition,pacing,lr,seed";
  for (const Figure& figure : kFigures)
    text += fmt::format(",{}", figure.name);
  text += "\n";
  for (size_t k = 0; k < job.cells.size(); ++k) {
    const Cell& cell = job.cells[k];
    const Settings& s = cell.options.settings;
    text += fmt::format("{},{},{},{},{},{},{},{},{}", csv_field(cell.label), csv_field(cell.group),
                        s.method, csv_field(s.topology), s.ranks, csv_field(s.objective.partition),
                        csv_field(pacing_of(cell)), s.lr.peak, s.seed);
    for (const double value : comparison.cells[k])
      text += std::isfinite(value) ? fmt::format(",{}", value) : ",";
    text += "\n";
  }
  return text;
}

void print_comparison(const Job& job, const JobOutcome& outcome, const Comparison& comparison) {
  std::printf("%s: %zu of %zu runs%s\n", printable(job.path).c_str(), outcome.finished,
              job.cells.size(),
              outcome.interrupted ? ", stopped early: start again for the rest" : "");
  const bool has_target = std::isfinite(job.target);
  if (has_target) std::printf("target: %s\n", target_text(job).c_str());
  std::vector<std::vector<std::string>> rows{{"run", "seeds"}};
  for (const GroupFigures& g : comparison.groups)
    rows.push_back({printable(g.group), std::to_string(g.runs)});
  for (size_t k = 0; k < kCount; ++k) {
    const bool any = std::any_of(comparison.groups.begin(), comparison.groups.end(),
                                 [&](const auto& g) { return std::isfinite(g.of[k].mean); });
    const bool asked = k >= kToTarget && has_target;
    if (kFigures[k].heading == nullptr || !(any || asked)) continue;
    rows[0].push_back(kFigures[k].heading);
    for (size_t g = 0; g < comparison.groups.size(); ++g) {
      const GroupFigures& group = comparison.groups[g];
      std::string text = cell_text(kFigures[k], group.of[k], group.runs);
      if (k == kToTarget && group.reached > 0 && group.reached < group.runs)
        text += fmt::format(" ({} of {})", group.reached, group.runs);
      rows[g + 1].push_back(std::move(text));
    }
  }
  if (const auto pacing = pacing_column(comparison); !pacing.empty())
    for (size_t k = 0; k < rows.size(); ++k)
      rows[k].insert(rows[k].begin() + 2, pacing[k]);
  std::printf("\n");
  if (!comparison.groups.empty()) print_rows(rows);
  for (const BestStepSize& b : comparison.best)
    std::printf("  best step size of %s: %s%s\n",
                printable(comparison.groups[b.group].group).c_str(), as_short(b.lr).c_str(),
                b.at_end ? ", at the end of those tried: a better one may lie beyond" : "");
  for (const CellOutcome& cell : outcome.cells)
    if (!cell.complaint.empty()) std::printf("  failed: %s\n", printable(cell.complaint).c_str());
  std::printf("\n  runs, compare and ranks (.csv, .svg) and curves.csv in %s\n",
              printable(comparison.folder).c_str());
}

Json comparison_json(const Job& job, const JobOutcome& outcome, const Comparison& comparison) {
  Json aggregates = Json::array();
  for (const GroupFigures& g : comparison.groups) {
    Json object = {{"label", g.label},       {"group", g.group}, {"pacing", g.pacing},
                   {"settings", g.settings}, {"runs", g.runs},   {"reached_target", g.reached}};
    for (size_t k = 0; k < kCount; ++k)
      object[kFigures[k].name] = {{"mean", g.of[k].mean}, {"sd", g.of[k].deviation}};
    aggregates.push_back(std::move(object));
  }
  Json best = Json::array();
  for (const BestStepSize& b : comparison.best)
    best.push_back({{"label", b.label},
                    {"settings", b.settings},
                    {"lr", b.lr},
                    {"group", comparison.groups[b.group].group},
                    {"at_end", b.at_end}});
  return {{"job", job.path},
          {"results", comparison.folder},
          {"svg", comparison.folder + "/compare.svg"},
          {"measure", job.measure.name},
          {"target", job.target},
          {"runs", job.cells.size()},
          {"finished", outcome.finished},
          {"reused", outcome.reused},
          {"failed", outcome.failed},
          {"interrupted", outcome.interrupted},
          {"cells", cells_json(job, outcome, comparison)},
          {"aggregates", aggregates},
          {"best_step_sizes", best}};
}

}  // namespace grapevine
