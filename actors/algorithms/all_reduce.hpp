// AllReduce: synchronous data-parallel SGD, the baseline in which ranks wait for each other.
//
//   each round    g = (1/n) sum_i g_i    by an all-reduce (actors/conversations/collective.hpp)
//                 x -= gamma u           u the momentum step of g, the same on every rank
//
// Invariant: all ranks hold the same x, bit for bit: the sum of each part is computed in one place
// and copied. After a change of the members some ranks may be one step ahead, and after a
// resumption many: x, the momentum and Adam's count of steps are averaged in the same way before
// the next gradient. Cost per rank and round: 2 (n-1) messages, 2 (n-1)/n of the vector in bytes.
// Memory: x, momentum, g, the sum.
#pragma once
#include "actors/algorithms/rule.hpp"

namespace grapevine {

class AllReduce final : public CollectiveRule {
 public:
  explicit AllReduce(const RuleContext&);

  void read(double now, Vec out) override;
  void reset(double now, ConstVec x) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void add_conserved(double now, Vec sum) override;
  RuleState state(double now) override;
  int vectors(double now) override;
  void begin(double now, int vector) override;
  Vec part(size_t offset, size_t count) override { return sum_.vec().part(offset, count); }
  void ask_sums(double now, int vector) override;
  void finish(double now, int vector, int contributions, Vec copy) override;

 private:
  bool is_count(double now, int vector);

  Optimizer optimizer_;
  Buffer x_, g_, sum_;
  double lr_ = 0;  // of the present round
};

}  // namespace grapevine
