#include "app/compare/curves.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "app/chart.hpp"

namespace grapevine {
namespace {

struct MeanCurve {
  std::vector<ErrorPoint> mean;
  std::vector<double> deviation;  // of the value; empty for one run
};

// Sample by sample over runs, as far as all of them go.
MeanCurve mean_curve(const std::vector<std::vector<ErrorPoint>>& curves) {
  size_t length = curves.front().size();
  for (const auto& curve : curves)
    length = std::min(length, curve.size());
  MeanCurve made{std::vector<ErrorPoint>(length), {}};
  std::vector<ErrorPoint>& mean = made.mean;
  const auto n = static_cast<double>(curves.size());
  for (const auto& curve : curves) {
    for (size_t k = 0; k < length; ++k) {
      mean[k].at_s += curve[k].at_s / n;
      mean[k].bytes += curve[k].bytes / n;
      mean[k].value += curve[k].value / n;
    }
  }
  if (curves.size() < 2) return made;
  for (size_t k = 0; k < length; ++k) {
    double squares = 0;
    for (const auto& curve : curves)
      squares += (curve[k].value - mean[k].value) * (curve[k].value - mean[k].value);
    made.deviation.push_back(std::sqrt(squares / (n - 1)));
  }
  return made;
}

}  // namespace

double number_in(const Json& object, const std::string& name) {
  const auto found = object.find(name);
  const bool has_it = found != object.end() && found->is_number();
  return has_it ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::vector<ErrorPoint> error_curve(const Measure& measure, const Json& result) {
  std::vector<ErrorPoint> curve;
  auto add = [&](const Json& from, const char* at) {
    const double value = number_in(from, measure.name);
    if (std::isfinite(value))
      curve.push_back({number_in(from, at), number_in(from, "bytes"), value});
  };
  if (const auto samples = result.find("samples"); samples != result.end())
    for (const Json& sample : *samples)
      add(sample, "at");
  add(result, "virtual_seconds");
  return curve;
}

std::string comparison_svg(const Job& job, const JobOutcome& outcome) {
  const bool tests = job.measure.more_is_better;
  std::string name = tests ? "test error" : job.measure.name;
  std::replace(name.begin(), name.end(), '_', ' ');
  Panel by_bytes{name, "bytes sent", true, !tests, true, {}};
  Panel by_time{name, "virtual seconds", false, !tests, false, {}};
  for (size_t k = 0; k < job.cells.size();) {
    const std::string& group = job.cells[k].group;
    std::vector<std::vector<ErrorPoint>> curves;
    for (; k < job.cells.size() && job.cells[k].group == group; ++k)
      if (const Json& record = outcome.cells[k].record; !record.is_null())
        curves.push_back(error_curve(job.measure, record.at("result")));
    if (curves.empty()) continue;
    const MeanCurve curve = mean_curve(curves);
    Series bytes{group, {}, {}, curve.deviation}, time{group, {}, {}, curve.deviation};
    for (const ErrorPoint& p : curve.mean) {
      const double error = tests ? 1 - p.value : p.value;
      bytes.x.push_back(p.bytes);
      bytes.y.push_back(error);
      time.x.push_back(p.at_s);
      time.y.push_back(error);
    }
    by_bytes.series.push_back(std::move(bytes));
    by_time.series.push_back(std::move(time));
  }
  return chart_svg(job.path, {by_bytes, by_time});
}

}  // namespace grapevine
