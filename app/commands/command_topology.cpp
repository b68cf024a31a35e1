// grapevine topology: a graph, its constants and the expected exchanges.
#include <cmath>
#include <cstdio>
#include <map>

#include "actors/algorithms/a2cid2.hpp"
#include "actors/algorithms/a2cid2_constants.hpp"
#include "app/commands/commands.hpp"
#include "app/output/json_output.hpp"
#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/base/spec.hpp"
#include "kernels/base/write_file.hpp"
#include "topologies/topology.hpp"

namespace grapevine {
namespace {

struct Costs {
  Spectrum spectrum;
  A2cid2Constants constants;
  // The number of exchanges of all ranks after which |pi x| is 1e-3 of its start at the proven
  // rates, with E|pi x|^2 ~ exp(-eta t) for A2CiD2 and exp(-t / (2 chi1)) for plain averaging
  // (Nabli, Belilovsky, Oyallon, NeurIPS 2023, section 3). Real runs need fewer.
  double expected = 0, expected_plain = 0;
};

Result<Costs> costs_of(const Topology& graph) {
  auto solved = spectrum(graph);
  if (!solved) return solved.error();
  Costs c;
  c.spectrum = std::move(*solved);
  if (graph.ranks() < 2) return c;
  const auto constants = a2cid2_constants(c.spectrum);
  if (!constants) return constants.error();
  c.constants = *constants;
  double exchanges_per_time = 0;
  for (const Edge& edge : graph.edges())
    exchanges_per_time += edge.rate;
  const double decay = 2 * std::log(1e3);
  c.expected = exchanges_per_time * decay / c.constants.eta;
  c.expected_plain = exchanges_per_time * decay * 2 * c.spectrum.chi1;
  return c;
}

Json json_of(const Topology& graph, const Costs& c) {
  Json degrees = Json::array();
  for (int rank = 0; rank < graph.ranks(); ++rank)
    degrees.push_back(graph.degree(rank));
  return {{"topology", graph.name()},
          {"ranks", graph.ranks()},
          {"edges", graph.edges().size()},
          {"chi1", c.spectrum.chi1},
          {"chi2", c.spectrum.chi2},
          {"eta", c.constants.eta},
          {"alpha", kAlpha},
          {"alpha_tilde", c.constants.alpha_tilde},
          {"expected_exchanges", c.expected},
          {"expected_exchanges_ad_psgd", c.expected_plain},
          {"eigenvalues", c.spectrum.eigenvalues},
          {"degrees", degrees}};
}

void print(const Topology& graph, const Costs& c) {
  std::map<int, int> degrees;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    ++degrees[graph.degree(rank)];
  std::printf("%s: %d ranks, %zu edges\n\n", printable(graph.name()).c_str(), graph.ranks(),
              graph.edges().size());
  std::printf("  degrees      ");
  for (const auto& [degree, ranks] : degrees)
    std::printf("%s%d (%d rank%s)", degree == degrees.begin()->first ? "" : ", ", degree, ranks,
                ranks == 1 ? "" : "s");
  const auto& values = c.spectrum.eigenvalues;
  std::printf("\n  spectrum     ");
  if (values.empty()) {
    std::printf("not listed above %d ranks", kDenseRanks);
  } else {
    const size_t n = values.size();
    for (size_t k = 0; k < n; ++k) {
      if (n > 12 && k == 6) std::printf(" ...");
      if (n <= 12 || k < 6 || k + 3 >= n) std::printf("%s%.6g", k == 0 ? "" : " ", values[k]);
    }
  }
  std::printf("\n  chi1         %.6f\n  chi2         %.6f\n", c.spectrum.chi1, c.spectrum.chi2);
  std::printf("  eta          %.6f\n  alpha        %.1f\n  alpha~       %.6f\n", c.constants.eta,
              kAlpha, c.constants.alpha_tilde);
  std::printf("\nexchanges until |pi x| is 1e-3 of its start (proven rates; runs need fewer):\n");
  std::printf("  a2cid2       %s   exp(-eta t)\n", with_commas(c.expected).c_str());
  std::printf("  ad_psgd      %s   exp(-t / (2 chi1))\n", with_commas(c.expected_plain).c_str());
}

}  // namespace

Result<int> show_topology(Options options) {
  const Settings& s = options.settings;
  const auto graph = make_topology(s.topology, s.ranks, s.rate);
  if (!graph) return graph.error();
  const Result<Costs> costs = costs_of(*graph);
  if (!costs) return costs.error();
  if (!options.svg.empty()) {
    const std::string drawn = draw_svg(*graph);
    std::string picture;  // a path in its caption may be no UTF-8
    for (const std::string_view line : split(drawn, '\n'))
      picture += printable(line) + '\n';
    if (Status s = write_whole_file(options.svg, {{picture.data(), picture.size()}}); !s)
      return s.error();
  }
  if (options.json) {
    print_json(json_of(*graph, *costs));
  } else {
    print(*graph, *costs);
  }
  return 0;
}

}  // namespace grapevine
