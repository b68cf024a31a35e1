// PowerGossip, Choco and DeepSqueeze on eight 6 x 5 matrices on a ring, in one loop over the
// kernels, against the errors of an independent dense NumPy calculation in double.
//
// X_i[a][b] = sin(1 + 1.7 a + 2.3 b + 0.9 i (a + 1) + 0.37 i b^2), all indices from 0; weights 1/3;
// the error is mean_i |X_i - mean|^2.
#include <cmath>
#include <map>

#include "kernels/compressor.hpp"
#include "kernels/low_rank.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr Execution kCpu{};
constexpr size_t kRanks = 8, kRows = 6, kColumns = 5, kSize = kRows * kColumns;
constexpr double kWeight = 1. / 3;

using Ranks = std::vector<Buffer>;

Ranks zeros() {
  Ranks ranks;
  for (size_t i = 0; i < kRanks; ++i)
    ranks.emplace_back(kSize, DType::f64);
  return ranks;
}

Ranks start() {
  Ranks x = zeros();
  for (size_t i = 0; i < kRanks; ++i) {
    const double rank = static_cast<double>(i);
    for (size_t e = 0; e < kSize; ++e) {
      const double a = static_cast<double>(e / kColumns), b = static_cast<double>(e % kColumns);
      x[i].vec().as<double>()[e] =
          std::sin(1 + 1.7 * a + 2.3 * b + 0.9 * rank * (a + 1) + 0.37 * rank * b * b);
    }
  }
  return x;
}

Ranks copied(const Ranks& from) {
  Ranks to = zeros();
  for (size_t i = 0; i < kRanks; ++i)
    extrapolate(kCpu, 0, from[i], {}, to[i]);
  return to;
}

double error(const Ranks& x) {
  double total = 0;
  for (size_t e = 0; e < kSize; ++e) {
    double mean = 0;
    for (const Buffer& rank : x)
      mean += rank.vec().as<double>()[e] / kRanks;
    for (const Buffer& rank : x)
      total += std::pow(rank.vec().as<double>()[e] - mean, 2) / kRanks;
  }
  return total;
}

size_t next(size_t i) { return (i + 1) % kRanks; }
size_t last(size_t i) { return (i + kRanks - 1) % kRanks; }

/// x_i += gamma sum_j w_ij (y_j - y_i).
void average(double gamma, const Ranks& y, Ranks& x) {
  const double a = gamma * kWeight;
  for (size_t i = 0; i < kRanks; ++i) {
    const Term terms[] = {{1, x[i]}, {a, y[last(i)]}, {a, y[next(i)]}, {-2 * a, y[i]}};
    combine(kCpu, terms, x[i]);
  }
}

Buffer cosines(size_t rows, size_t rank) {
  Buffer factor(rows * rank, DType::f64);
  for (size_t k = 0; k < rank; ++k) {
    for (size_t i = 0; i < rows; ++i) {
      factor.vec().as<double>()[k * rows + i] = std::cos(static_cast<double>(k * i));
    }
  }
  return factor;
}

/// One edge's factors, the same at both ends; iteration k takes the differences of one side.
struct Edge {
  size_t high, low;  // ranks
  Buffer p, q;

  Edge(size_t i, size_t j, size_t rank)
      : high(std::max(i, j)),
        low(std::min(i, j)),
        p(cosines(kRows, rank)),
        q(cosines(kColumns, rank)) {}

  void iterate(size_t k, const LowRank& shape, const Ranks& x) {
    const bool odd = k % 2 == 1;
    Buffer& out = odd ? p : q;
    Buffer theirs(out.size(), DType::f64);
    orthonormalise(kCpu, odd ? kColumns : kRows, shape.rank, odd ? q : p);
    const auto product = odd ? times : transposed_times;
    product(kCpu, shape, x[high], odd ? q : p, out);
    product(kCpu, shape, x[low], odd ? q : p, theirs);
    axpy(kCpu, -1, theirs, out);
  }
};

using Errors = std::map<int, double>;  // after so many iterations

Errors power_gossip(double gamma, size_t rank, int iterations) {
  const LowRank shape{kRows, kColumns, rank};
  Ranks x = start();
  std::vector<Edge> edges;
  for (size_t i = 0; i < kRanks; ++i)
    edges.emplace_back(i, next(i), rank);
  Errors errors;
  for (int k = 1; k <= iterations; ++k) {
    for (Edge& edge : edges)
      edge.iterate(static_cast<size_t>(k), shape, x);
    for (const Edge& edge : edges) {
      add_low_rank(kCpu, shape, -gamma * kWeight, edge.p, edge.q, x[edge.high]);
      mix_and_add_low_rank(kCpu, shape, 0, gamma * kWeight, 0, edge.p, edge.q, x[edge.low], {});
    }
    errors[k] = error(x);
  }
  return errors;
}

Compressor compressor(const std::string& spec) {
  ParameterLayout layout(DType::f64);
  layout.add("X", {kRows, kColumns}, true);
  return *Compressor::make(spec, layout);
}

/// y += a C(v), over the wire.
void add_compressed(const Compressor& c, double a, const Buffer& v, Buffer& y) {
  std::vector<std::byte> wire(c.bytes());
  c.encode(kCpu, v, 0, 0, wire.data());
  c.decode(kCpu, wire.data(), 0, 0, a, y);
}

/// x^_i += C(x_i - x^_i);  x_i += gamma sum_j w_ij (x^_j - x^_i).
Errors choco(const std::string& spec, double gamma, int iterations) {
  const Compressor c = compressor(spec);
  Ranks x = start(), hat = zeros();
  Errors errors;
  for (int k = 1; k <= iterations; ++k) {
    for (size_t i = 0; i < kRanks; ++i) {
      Buffer v(kSize, DType::f64);
      const Term difference[] = {{1, x[i]}, {-1, hat[i]}};
      combine(kCpu, difference, v);
      add_compressed(c, 1, v, hat[i]);
    }
    average(gamma, hat, x);
    errors[k] = error(x);
  }
  return errors;
}

/// v = x + delta;  delta = v - C(v);  x_i += gamma sum_j w_ij (C(v_j) - C(v_i)).
Errors deep_squeeze(const std::string& spec, double gamma, int iterations) {
  const Compressor c = compressor(spec);
  Ranks x = start(), delta = zeros();
  Errors errors;
  for (int k = 1; k <= iterations; ++k) {
    Ranks compressed = zeros();
    for (size_t i = 0; i < kRanks; ++i) {
      axpy(kCpu, 1, x[i], delta[i]);  // v
      add_compressed(c, 1, delta[i], compressed[i]);
      axpy(kCpu, -1, compressed[i], delta[i]);
    }
    average(gamma, compressed, x);
    errors[k] = error(x);
  }
  return errors;
}

void check(const Errors& errors, const Errors& expected) {
  for (const auto& [iteration, value] : expected) {
    INFO("after " << iteration << ": " << errors.at(iteration) << ", expected " << value);
    CHECK(std::abs(errors.at(iteration) - value) < 1e-10);
  }
}

constexpr double kBestGamma = 1.3083906286540754;

}  // namespace

TEST_CASE("the matrix problem starts where it should, and uncompressed gossip follows its errors") {
  const Ranks first = start();
  CHECK(std::abs(error(first) - 13.491316247754) < 1e-10);
  for (const auto& [gamma, expected] : std::map<double, Errors>{
           {1, {{1, 3.180982629048}, {2, 1.704073422517}, {10, 5.073353509986e-2}}},
           {kBestGamma, {{1, 4.109961842926}, {2, 1.905931346951}, {10, 1.467858421326e-2}}}}) {
    Ranks x = copied(first);
    Errors errors;
    for (int k = 1; k <= 10; ++k) {
      average(gamma, copied(x), x);
      errors[k] = error(x);
    }
    check(errors, expected);
  }
}

// After 200 iterations of rank 1 the error is that of rounding: entries of X changed by 1e-16 of
// themselves move it by a tenth and more, so a band stands there.
TEST_CASE("PowerGossip of rank 1 and 2 follows the errors of the matrix problem to 1e-10") {
  const Errors rank_1 = power_gossip(1, 1, 200);
  check(rank_1, {{1, 11.74663044014},
                 {2, 8.131148720023},
                 {3, 7.155381335825},
                 {10, 1.987663284662},
                 {50, 3.169939492882e-2}});
  CHECK(rank_1.at(200) == Approx(1.236980638e-7).epsilon(0.3));
  const Errors faster = power_gossip(kBestGamma, 1, 200);
  check(faster, {{1, 11.90189043360},
                 {2, 8.130604803457},
                 {3, 7.163758982020},
                 {10, 1.709166410805},
                 {50, 1.289826813844e-2}});
  CHECK(faster.at(200) == Approx(2.2602254e-9).epsilon(0.5));
  const Errors rank_2 = power_gossip(1, 2, 200);
  check(rank_2, {{1, 10.54827925107},
                 {2, 5.409868335103},
                 {3, 3.422082333938},
                 {10, .6183907155256},
                 {50, 5.432776461703e-4}});
  CHECK(rank_2.at(200) < 1e-13);
}

TEST_CASE("Choco with sign and top-3 follows the errors of the matrix problem to 1e-10") {
  check(choco("sign", 0.4, 50),
        {{1, 8.293368052064}, {10, .8160998729325}, {50, 6.644459721693e-4}});
  check(choco("top-k:0.1", 0.1, 50),
        {{1, 13.10477472686}, {10, 4.668010881279}, {50, .5215772056180}});
}

TEST_CASE("DeepSqueeze with sign follows the errors of the matrix problem to 1e-10") {
  check(deep_squeeze("sign", 0.05, 50),
        {{1, 12.70274700052}, {10, 6.898557099496}, {50, 1.633743837866}});
}
