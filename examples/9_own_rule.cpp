// Your own method: the ranks take the median of their own and their neighbours' values, coordinate
// by coordinate, so a rank that is far off moves no other.
//
// A rule is arithmetic on the vectors of one rank; a conversation of the library carries its
// messages. Registered under a name, it is a method like any other: here with its own graph, a ring
// whose ranks are also connected to their neighbours' neighbours. Rank 3's optimum is far from the
// others'.
//
// To build and run: ninja -C build/release 9_own_rule && build/release/bin/9_own_rule
// It prints:
//
//   d_psgd  on wide-ring: ranks are 13.8 from where they would be without rank 3
//   median  on wide-ring: ranks are 0.2 from where they would be without rank 3
//   twice under one name: method median is there already, accepted: another name
#include <grapevine/extend.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "examples/example.hpp"

using namespace grapevine;

class Median final : public RoundRule {
 public:
  using RoundRule::RoundRule;
  size_t message_bytes() const override { return layout_.bytes(); }
  void write(int, size_t, Payload& out) override {
    std::memcpy(out.writable(dtype(), size()).data, x_.vec().data, layout_.bytes());
  }
  void combine(double, int, std::span<const Received> in) override {
    double* x = x_.vec().as<double>();
    std::vector<double> values(in.size() + 1);
    for (size_t k = 0; k < size(); ++k) {
      values[0] = x[k];
      for (size_t j = 0; j < in.size(); ++j)
        values[j + 1] = in[j].payload.vec().as<double>()[k];
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::nth_element(values.begin(), middle, values.end());
      x[k] = *middle;
    }
  }
};

// f_i = |x - c_i|^2 / 2, where c_i is near 0, except for rank 3, whose c_i is far away.
class Pulls final : public Objective {
 public:
  const ParameterLayout& layout() const override { return layout_; }
  void initial_point(int, Vec x) const override { std::fill_n(x.as<double>(), x.size, 0.0); }
  double gradient(int, int rank, uint64_t, ConstVec x, Vec g) override {
    for (size_t k = 0; k < x.size; ++k)
      g.as<double>()[k] = x.as<double>()[k] - (rank == 3 ? 100 : 0.1 * rank);
    return 0;
  }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "pulls"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  const ParameterLayout layout_ = ParameterLayout::flat(4, DType::f64);
};

int main() {
  const auto make = [](const RuleContext& c) -> std::unique_ptr<Rule> {
    return std::make_unique<Median>(c);
  };
  const Method median{.name = "median", .pattern = Pattern::rounds, .make = make};
  example::or_exit(register_method(median));
  TopologyKind wide_ring;
  wide_ring.name = "wide-ring";
  wide_ring.make = [](int ranks, const auto&) -> Result<std::vector<Edge>> {
    std::vector<Edge> edges;
    for (int i = 0; i < ranks; ++i)
      for (const int far : {1, 2})
        edges.push_back({.i = i, .j = (i + far) % ranks});
    return edges;
  };
  example::or_exit(register_topology(wide_ring));
  for (const char* method : {"d_psgd", "median"}) {
    Settings settings;
    settings.clock = Clock::simulated;
    settings.method = method;
    settings.topology = "wide-ring";
    settings.ranks = 8;
    settings.guarded = false;  // otherwise the guard keeps rank 3 away
    settings.gradients = 8 * 400;
    settings.lr = {0.1, Schedule::constant, 0};
    settings.rule.optimizer = {};
    const RunResult result = example::or_exit(run(settings, std::make_shared<Pulls>()));
    double off = 0;
    for (const RankParameters& p : result.outcome.parameters)
      if (p.rank != 3) off = std::max(off, std::abs(p.x->vec().as<double>()[0] - 0.36));
    std::printf("%-7s on wide-ring: ranks are %.1f from where they would be without rank 3\n",
                method, off);
  }
  std::printf("twice under one name: %s\n", register_method(median).error().message.c_str());
}
