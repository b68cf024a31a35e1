// reproduce scalar, reproduce matrix: problems without random draws, so every figure of the
// published equations can be reproduced to 1e-10.
//
// scalar: 16 ranks, f_i(x) = 1/2 a_i (x - b_i)^2 (models/analytic.hpp), learning rate 0.1 by
// default. matrix: one 6 x 5 matrix of sines per rank of a ring of 8; mean_i |X_i - mean|^2. One
// figure is no constant of the equations: after 200 rounds of PowerGossip at gamma 1 rounding
// errors have grown to several per cent (computed with 50 digits it is 1.2189e-7); its tolerance is
// 1e-8. Equations: Vogels et al., NeurIPS 2021 (arXiv 2110.04175) and NeurIPS 2020 (arXiv
// 2008.01425).
#include <fmt/core.h>

#include <cmath>

#include "app/reproduce/runs.hpp"

namespace grapevine {
namespace {

constexpr double kExactTolerance = 1e-10;
constexpr double kOptimum = 0.18;

enum class ExactFigure { mean, farthest, spread };

struct ExactCell {
  uint64_t rounds = 0;  // 0: no more cells
  double expected = 0;
  ExactFigure figure = ExactFigure::mean;
  double tolerance = kExactTolerance;
};

struct ExactRow {
  const char* what;
  const char* words;
  ExactCell cells[6];
};

constexpr ExactRow kScalarRows[] = {
    {"all-reduce",
     "method=all_reduce",
     {{1, -1.6875e-1}, {10, -9.440288550877e-2}, {200, -4.461981703563e-7}, {1000, -8e-16}}},
    {"D-PSGD",
     "method=d_psgd",
     {{1, -1.6875e-1},
      {10, -9.280467374662e-2},
      {200, -1.543308301248e-2},
      {1000, -1.543222880293e-2},
      {1000, 1.004974038517, ExactFigure::farthest}}},
    {"D2",
     "method=d2 weights=uniform:0.32333333333333333",
     {{1, -1.6875e-1},
      {10, -9.983156203698e-2},
      {200, -1.871621105043e-7},
      {1000, 2e-15},
      {1000, 2e-15, ExactFigure::farthest}}},
    {"gradient tracking",
     "method=gradient_tracking weights=uniform:0.32333333333333333",
     {{1, -1.6875e-1}, {10, -9.724554186944e-2}, {200, -1.509810044145e-3}, {1000, 8.330791e-10}}},
    {"RelaySGD chain, x0",
     "method=relaysgd topology=chain normalisation=x0",
     {{1, -1.777441406250e-1},
      {10, -1.499955032162e-1},
      {200, -1.622531007154e-2},
      {1000, -1.294987264921e-6},
      {1000, 1.330916598097e-6, ExactFigure::farthest}}},
    {"RelaySGD chain, counts",
     "method=relaysgd topology=chain",
     {{1, -1.739583333333e-1},
      {10, -1.215711962733e-1},
      {200, -1.378484935575e-2},
      {1000, -1.100208022770e-6}}},
    {"RelaySGD chain, own",
     "method=relaysgd topology=chain normalisation=own",
     {{1, -1.6875e-1},
      {10, -1.380909472663e-1},
      {200, -1.624694945188e-2},
      {1000, -1.296714086191e-6}}},
    {"RelaySGD tree, x0",
     "method=relaysgd topology=relay-tree normalisation=x0",
     {{1, -1.798632812500e-1},
      {10, -1.541511624501e-1},
      {200, -3.891427119385e-3},
      {1000, -7.093055309770e-10}}},
    {"RelaySGD tree, counts",
     "method=relaysgd topology=relay-tree",
     {{1, -1.829296875000e-1},
      {10, -1.490929413285e-1},
      {200, -3.804502184498e-3},
      {1000, -6.934778029599e-10}}},
    {"RelaySum/Grad chain",
     "method=relaysum_grad topology=chain",
     {{1, -1.777441406250e-1},
      {10, -8.626767654641e-2},
      {200, -7.410679304209e-3},
      {1000, -7.410679303995e-3},
      {1000, 7.278330829679e-2, ExactFigure::farthest}}},
    {"RelaySum/Grad tree",
     "method=relaysum_grad topology=relay-tree",
     {{1, -1.798632812500e-1},
      {10, -1.139514070104e-1},
      {200, 1.573716670640e-2},
      {1000, 1.573718896005e-2},
      {1000, .2353511869, ExactFigure::farthest}}},
    {"D-PSGD at 0.05",
     "method=d_psgd lr=0.05",
     {{2000, -1.546592122879e-2}, {2000, .6180408526737, ExactFigure::farthest}}},
    {"D-PSGD at 0.01",
     "method=d_psgd lr=0.01",
     {{7000, -5.460376011808e-3}, {7000, .1557496698541, ExactFigure::farthest}}},
    {"momentum, D-PSGD",
     "method=d_psgd lr=0.02 momentum=0.9 nesterov=true",
     {{50, -6.774495270185e-3},
      {50, 1.504005637996, ExactFigure::farthest},
      {400, -3.987679562311e-3}}},
    {"momentum, quasi-global",
     "method=qgm lr=0.02 momentum=0.9 nesterov=true",
     {{50, 2.154129229299e-2}, {400, -1.390010077187e-2}}},
    {"momentum, D2",
     "method=d2 weights=uniform:0.32333333333333333 lr=0.02 momentum=0.9 nesterov=true",
     {{50, 1.816564773228e-3}, {400, 4.4e-10}}},
    {"momentum, gradient tracking",
     "method=gradient_tracking weights=uniform:0.32333333333333333 lr=0.02 momentum=0.9 "
     "nesterov=true",
     {{50, -4.130757501589e-2}, {400, -3.950785105778e-4}}},
    {"momentum, RelaySGD chain, counts",
     "method=relaysgd topology=chain lr=0.02 momentum=0.9 nesterov=true",
     {{50, -4.376385030779e-2}, {400, -2.738642203293e-7}}},
    {"momentum, RelaySGD tree, counts",
     "method=relaysgd topology=relay-tree lr=0.02 momentum=0.9 nesterov=true",
     {{50, -1.736010159923e-2}, {400, -8.79e-11}}},
};

constexpr ExactCell spread(uint64_t rounds, double expected) {
  return {rounds, expected, ExactFigure::spread};
}

constexpr ExactRow kMatrixRows[] = {
    {"uncompressed",
     "method=d_psgd",
     {spread(1, 3.180982629048), spread(2, 1.704073422517), spread(10, 5.073353509986e-2)}},
    {"uncompressed, best gamma",
     "method=d_psgd gamma=0",
     {spread(1, 4.109961842926), spread(2, 1.905931346951), spread(10, 1.467858421326e-2)}},
    {"PowerGossip rank 1",
     "method=powergossip compress=powergossip:start=cosines",
     {spread(1, 11.74663044014),
      spread(2, 8.131148720023),
      spread(3, 7.155381335825),
      spread(10, 1.987663284662),
      spread(50, 3.169939492882e-2),
      {200, 1.236980638e-7, ExactFigure::spread, 1e-8}}},
    {"PowerGossip rank 1, best gamma",
     "method=powergossip compress=powergossip:start=cosines gamma=1.3083906286540754",
     {spread(1, 11.90189043360), spread(2, 8.130604803457), spread(3, 7.163758982020),
      spread(10, 1.709166410805), spread(50, 1.289826813844e-2), spread(200, 2.2602254e-9)}},
    {"PowerGossip rank 2",
     "method=powergossip compress=powergossip:rank=2,start=cosines",
     {spread(1, 10.54827925107), spread(2, 5.409868335103), spread(3, 3.422082333938),
      spread(10, .6183907155256), spread(50, 5.432776461703e-4), spread(200, 2.9e-14)}},
    {"Choco, sign",
     "method=choco compress=sign gamma=0.4",
     {spread(1, 8.293368052064), spread(10, .8160998729325), spread(50, 6.644459721693e-4)}},
    {"Choco, the largest 3",
     "method=choco compress=top-k:0.1 gamma=0.1",
     {spread(1, 13.10477472686), spread(10, 4.668010881279), spread(50, .5215772056180)}},
    {"DeepSqueeze, sign",
     "method=deepsqueeze compress=sign gamma=0.05",
     {spread(1, 12.70274700052), spread(10, 6.898557099496), spread(50, 1.633743837866)}},
};

double figure_of(const Summary& summary, ExactFigure figure) {
  if (figure == ExactFigure::spread) return summary.consensus_distance;
  double mean = 0, farthest = 0;
  const auto ranks = static_cast<int>(summary.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const double off = parameters_of(summary, rank).front() - kOptimum;
    mean += off / ranks;
    farthest = std::max(farthest, std::abs(off));
  }
  return figure == ExactFigure::mean ? mean : farthest;
}

const char* name_of(ExactFigure figure) {
  switch (figure) {
    case ExactFigure::mean: return "mean";
    case ExactFigure::farthest: return "farthest";
    case ExactFigure::spread: return "spread";
  }
  return "";
}

Result<Claims> measure(std::span<const ExactRow> rows, const std::string& problem,
                       const Effort& effort) {
  std::vector<Run> runs;
  Claims claims;
  for (const ExactRow& row : rows) {
    for (const ExactCell& cell : row.cells) {
      if (cell.rounds == 0) break;
      Run run;
      run.words = fmt::format("{} {}", problem, row.words);
      run.rounds = effort.rounds(cell.rounds);
      runs.push_back(run);
      claims.push_back({fmt::format("{} after {}, {}", row.what, cell.rounds, name_of(cell.figure)),
                        cell.expected, 0, cell.tolerance, Accept::absolute});
    }
  }
  const auto summaries = perform_all(runs, effort);
  if (!summaries) return summaries.error();
  size_t k = 0;
  for (const ExactRow& row : rows)
    for (const ExactCell& cell : row.cells) {
      if (cell.rounds == 0) break;
      claims[k].measured = figure_of((*summaries)[k], cell.figure);
      ++k;
    }
  return claims;
}

}  // namespace

Result<Claims> reproduce_scalar(const Effort& effort) {
  return measure(kScalarRows, "objective=scalar ranks=16 lr=0.1 relay-lr=false", effort);
}

Result<Claims> reproduce_matrix(const Effort& effort) {
  return measure(kMatrixRows, "objective=matrix entries=sines rows=6 columns=5 ranks=8", effort);
}

}  // namespace grapevine
