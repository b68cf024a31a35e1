#include "app/launch/report.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "app/output/cost_report.hpp"
#include "app/output/report.hpp"
#include "app/output/row.hpp"
#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"

namespace grapevine {
namespace {

std::string number(const Json& n) { return n.is_number() ? with_commas(n.get<double>()) : "n/a"; }

}  // namespace

void print_launch(const Settings& settings, const Json& told) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto real = [&](const char* name) {
    return told[name].is_number() ? told[name].get<double>() : none;
  };
  std::printf("\n%s on %s, seed %llu: the mean of %s ranks at %s node%s%s\n",
              settings.method.c_str(), printable(settings.topology).c_str(),
              static_cast<unsigned long long>(settings.seed), number(told["ranks"]).c_str(),
              number(told["nodes"]).c_str(), told["nodes"] == 1 ? "" : "s",
              told["interrupted"].get<bool>() ? ", stopped early" : "");
  if (std::isfinite(real("accuracy"))) {
    row("accuracy", as_percent(real("accuracy")) + " of the averaged model");
    row("", as_percent(real("worst_rank_accuracy")) + " of the worst rank");
  }
  row(name_of_loss(settings), as_short(real("test_loss")));
  const auto wanted = static_cast<double>(settings.gradients);
  row("gradients", fmt::format("{}{} ({} per second)", number(told["gradients"]),
                               wanted > 0 ? " of " + with_commas(wanted) : "",
                               with_commas(real("gradients_per_second"))));
  row("exchanges", number(told["exchanges"]));
  row("bytes", fmt::format("{} in {} messages", as_bytes(real("bytes")), number(told["messages"])));
  if (real("broken_exchanges") > 0) row("broken exchanges", number(told["broken_exchanges"]));
  if (const auto cost = cost_of(told["cost"])) {
    print_cost(*cost);
    if (told["cost"]["nodes"] != told["processes"].size())
      row("", fmt::format("of the {} nodes that have told", number(told["cost"]["nodes"])));
  }
  row("time", fmt::format("{}: training {}", as_seconds(real("total_seconds")),
                          as_seconds(real("seconds"))));
  if (const std::string out = told["run_dir"]; !out.empty())
    row("run directories", out + "/node-*");
  if (told.contains("sample")) print_sample(told["sample"]);
}

}  // namespace grapevine
