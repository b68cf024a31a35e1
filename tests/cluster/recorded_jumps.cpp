#include "tests/cluster/recorded_jumps.hpp"

#include <memory>
#include <utility>

#include "actors/algorithms/method_registry.hpp"
#include "tests/catch.hpp"

namespace grapevine::test {

namespace {

std::vector<RecordedJump>& jumps() {
  static std::vector<RecordedJump> all;
  return all;
}

uint64_t next_rule() {
  static uint64_t made = 0;
  return ++made;
}

/// Another rule, beside which its jumps are measured.
class Recorded final : public PairwiseRule {
 public:
  Recorded(std::unique_ptr<Rule> rule, const RuleContext& c, double of_conserved)
      : rule_(static_cast<PairwiseRule*>(rule.release())),
        rank_(c.rank),
        size_(c.x.size),
        of_conserved_(of_conserved) {}

  void jump(double now, const ExchangeKey& key, const Payload& sent, const Payload& received,
            double alpha_tilde, double share) override {
    Buffer before(size_, DType::f64), after(size_, DType::f64);
    rule_->add_conserved(now, before);
    rule_->jump(now, key, sent, received, alpha_tilde, share);
    rule_->add_conserved(now, after);
    RecordedJump jump{rank_, number_, key, {}, {}, {}};
    REQUIRE(jump.moved.size() == size_);
    REQUIRE((sent.count == size_ && received.count == size_));
    for (size_t k = 0; k < size_; ++k) {
      jump.sent[k] = sent.vec().as<double>()[k];
      jump.received[k] = received.vec().as<double>()[k];
      jump.moved[k] = of_conserved_ * (std::as_const(after).vec().as<double>()[k] -
                                       std::as_const(before).vec().as<double>()[k]);
    }
    if (sent.version == received.version) return jumps().push_back(jump);
    CHECK(jump.moved == decltype(jump.moved){});  // of another version: it says nothing
  }

  void read(double now, Vec out) override { rule_->read(now, out); }
  void reset(double now, ConstVec x) override { rule_->reset(now, x); }
  RuleState state(double now) override { return rule_->state(now); }
  void meet(const ExchangeKey& key) override { rule_->meet(key); }
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override {
    rule_->on_gradient(now, lr, g, copy);
  }
  void take(double now, Vec front, Vec base, Vec finite) override {
    rule_->take(now, front, base, finite);
  }
  void add_conserved(double now, Vec sum) override { rule_->add_conserved(now, sum); }
  bool conserves() const override { return rule_->conserves(); }
  RuleCounts counts() const override { return rule_->counts(); }
  void set_eta(double now, double eta) override { rule_->set_eta(now, eta); }
  size_t snapshot_bytes() const override { return rule_->snapshot_bytes(); }
  void snapshot(double now, const ExchangeKey& key, ConstVec front, Payload& out) override {
    rule_->snapshot(now, key, front, out);
  }

 private:
  std::unique_ptr<PairwiseRule> rule_;
  int rank_;
  uint64_t number_ = next_rule();
  size_t size_;
  double of_conserved_;  // what is recorded
};

// Once: what is registered stays for the process's life.
bool is_registered() {
  Method single = method_named("ad_psgd"), with_twin = method_named("a2cid2");
  single.name = "recorded_ad_psgd";
  single.make = [](const RuleContext& c) -> std::unique_ptr<Rule> {
    return std::make_unique<Recorded>(method_named("ad_psgd").make(c), c, 2);
  };
  with_twin.name = "recorded_a2cid2";
  with_twin.make = [](const RuleContext& c) -> std::unique_ptr<Rule> {
    return std::make_unique<Recorded>(method_named("a2cid2").make(c), c, 1);
  };
  return register_method(single) && register_method(with_twin);
}

}  // namespace

std::string recorded(const std::string& method) {
  static const bool there = is_registered();
  REQUIRE(there);
  const std::string name = "recorded_" + method;
  REQUIRE(find_method(name) != nullptr);
  return name;
}

std::vector<RecordedJump> take_recorded_jumps() { return std::exchange(jumps(), {}); }

}  // namespace grapevine::test
