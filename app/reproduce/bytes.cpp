// reproduce bytes: the bytes that a rank sends per epoch of ResNet-20 and per step of a word-level
// LSTM, by the counters of runs that gossip tensors of these shapes.
//
// Each rank has two neighbours. ResNet-20 on CIFAR-10 has 49 steps an epoch; the LSTM has 3 layers
// of 650 and 28,869 words. Shapes and set-up: Vogels, Karimireddy, Jaggi, NeurIPS 2020 (arXiv
// 2008.01425). A rank's bytes follow from the shapes alone; they are computed here, and the
// counters must be equal to them. top-k sends indices of 32 bits.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "app/reproduce/runs.hpp"

namespace grapevine {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kNeighbours = 2;
constexpr uint64_t kSteps = 49;

ParameterLayout resnet20() {
  ParameterLayout layout(DType::f32);
  const auto convolution = [&](int64_t out, int64_t in, int64_t side) {
    layout.add("convolution", {out, in, side, side}, true);
    layout.add("scale", {out}, false);
    layout.add("shift", {out}, false);
  };
  convolution(16, 3, 3);
  int64_t in = 16;
  for (const int64_t out : {16, 32, 64}) {
    for (int layer = 0; layer < 6; ++layer)
      convolution(out, layer == 0 ? in : out, 3);
    if (in != out) convolution(out, in, 1);
    in = out;
  }
  layout.add("classes", {10, 64}, true);
  layout.add("bias", {10}, true);
  return layout;
}

ParameterLayout lstm() {
  constexpr int64_t words = 28869, hidden = 650, gates = 4 * hidden;
  ParameterLayout layout(DType::f32);
  layout.add("words", {words, hidden}, true);
  for (int layer = 0; layer < 3; ++layer) {
    layout.add("input", {gates, hidden}, true);
    layout.add("hidden", {gates, hidden}, true);
    layout.add("input bias", {gates}, true);
    layout.add("hidden bias", {gates}, true);
  }
  layout.add("bias", {words}, true);
  return layout;
}

// --- bytes of one message

double raw(const ParameterLayout& layout) { return 4 * static_cast<double>(layout.size()); }

double signs(const ParameterLayout& layout) {
  double bytes = 0;
  for (const ParameterEntry& tensor : layout.entries())
    bytes += std::ceil(static_cast<double>(tensor.size()) / 8) + 4;
  return bytes;
}

double largest_percent(const ParameterLayout& layout) {
  double bytes = 0;
  for (const ParameterEntry& tensor : layout.entries())
    bytes += (4 + 4) * std::max(1.0, std::floor(0.01 * static_cast<double>(tensor.size())));
  return bytes;
}

double two_bits(const ParameterLayout& layout) {
  return std::ceil(static_cast<double>(layout.size()) / 4);
}

/// The mean of the `iterations` messages of a step, over both possible first sides.
double power(const ParameterLayout& layout, double rank, double iterations) {
  double sides = 0, vectors = 0;
  for (const ParameterEntry& tensor : layout.entries()) {
    const auto m = static_cast<double>(tensor.rows()), n = static_cast<double>(tensor.columns());
    const double r = std::min({rank, m, n});
    if (tensor.shape.size() > 1 && (m + n) * r < m * n)
      sides += (m + n) * r;
    else
      vectors += static_cast<double>(tensor.size());
  }
  return 4 * (iterations * sides / 2 + vectors);
}

// --- the claims

struct ByteRow {
  const char* what;
  const char* words;
  double mebibytes;    // published; 0: not
  double bytes;        // to each neighbour and step
  uint64_t steps = 1;  // in the published figure
  uint64_t run = 1;    // steps per step of the figure: an even number if messages alternate
};

std::vector<ByteRow> resnet_rows(const ParameterLayout& l) {
  return {
      {"D-PSGD", "method=d_psgd", 101.86, raw(l), kSteps},
      {"all-reduce, 2 (n-1) / n buffers", "method=all_reduce", 0, raw(l) * 7 / 8, kSteps},
      {"sign", "method=choco compress=sign gamma=0.4", 3.21, signs(l), kSteps},
      {"top 1 %", "method=choco compress=top-k:0.01 gamma=0.04", 2.05, largest_percent(l), kSteps},
      {"Moniqua", "method=moniqua gamma=0.005", 6.37, two_bits(l), kSteps},
      {"PowerGossip, 1 iteration", "method=powergossip", 1.81, power(l, 1, 1), kSteps, 2},
      {"PowerGossip, 2 iterations", "method=powergossip compress=powergossip:iterations=2", 3.04,
       power(l, 1, 2), kSteps}};
}

std::vector<ByteRow> lstm_rows(const ParameterLayout& l) {
  return {{"D-PSGD", "method=d_psgd", 220.87, raw(l)},
          {"sign", "method=choco compress=sign gamma=0.8", 6.90, signs(l)},
          {"PowerGossip, 8 iterations", "method=powergossip compress=powergossip:iterations=8",
           1.84, power(l, 1, 8)},
          {"PowerGossip, 16 iterations", "method=powergossip compress=powergossip:iterations=16",
           3.33, power(l, 1, 16)},
          {"PowerGossip, 32 iterations", "method=powergossip compress=powergossip:iterations=32",
           6.32, power(l, 1, 32)},
          {"PowerGossip rank 8, 4 iterations",
           "method=powergossip compress=powergossip:rank=8,iterations=4", 6.32, power(l, 8, 4)},
          {"PowerGossip rank 4, 8 iterations",
           "method=powergossip compress=powergossip:rank=4,iterations=8", 6.32, power(l, 4, 8)},
          {"PowerGossip rank 2, 16 iterations",
           "method=powergossip compress=powergossip:rank=2,iterations=16", 6.32, power(l, 2, 16)}};
}

Result<Claims> measure(const std::string& model, const ParameterLayout& layout, const ByteRow& row,
                       int ranks, const Effort& effort) {
  Run run;
  run.words = fmt::format("objective=consensus topology=ring ranks={} {}", ranks, row.words);
  run.rounds = effort.rounds(row.run * row.steps);
  run.objective = std::make_shared<Probe>(layout, [](int, uint64_t, ConstVec, Vec) {});
  const auto summary = perform(run);
  if (!summary) return summary.error();
  const double all = static_cast<double>(summary->payload_bytes) / ranks;
  const double sent = all / static_cast<double>(row.run);
  const double expected = kNeighbours * row.bytes * static_cast<double>(row.steps);
  const std::string what = fmt::format("{}, {}", model, row.what);
  Claims claims = {{what + ": bytes", expected, sent, 0, Accept::absolute}};
  if (row.mebibytes > 0)
    claims.push_back({what + ": MiB", row.mebibytes, sent / kMiB, 0.005, Accept::absolute});
  return claims;
}

}  // namespace

Result<Claims> reproduce_bytes(const Effort& effort) {
  const ParameterLayout images = resnet20(), words = lstm();
  const std::vector<ByteRow> of_images = resnet_rows(images), of_words = lstm_rows(words);
  std::vector<Claims> parts(of_images.size() + of_words.size());
  const Status done = for_all(parts.size(), effort, [&](size_t k) -> Status {
    const size_t first = of_images.size();
    auto claims = k < first ? measure("an epoch of ResNet-20", images, of_images[k], 8, effort)
                            : measure("a step of the LSTM", words, of_words[k - first], 3, effort);
    if (!claims) return claims.error();
    parts[k] = std::move(*claims);
    return Done{};
  });
  if (!done) return done.error();
  return joined(parts);
}

}  // namespace grapevine
