// The choice of partners alone: times and numbers, no frames.
#include <cmath>

#include "actors/conversations/partner_policy.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

Partners partners_of(int degree, double rate) {
  Partners partners;
  for (int peer = 1; peer <= degree; ++peer) {
    Partner& p = partners.emplace_back(Partner{PairExchange(peer, 0, 0, 1e-3, 1e-2)});
    p.wanted_rate = rate;
  }
  return partners;
}

}  // namespace

TEST_CASE("the free policy offers once an interval, and never to one of the last d/2 partners") {
  for (const int degree : {2, 3, 6}) {
    const double rate = 2;  // exchanges a second, of all edges together
    Partners partners = partners_of(degree, rate / degree);
    PartnerPolicy policy({});
    policy.learn(0, rate, degree);
    std::vector<int> last;
    std::vector<uint64_t> met(static_cast<size_t>(degree), 0);
    const double seconds = 500;
    for (double now = 0; now < seconds; now += 0.01) {
      const PartnerPolicy::Choice choice = policy.choose(now, partners);
      if (choice.partner < 0) continue;
      Partner& p = partners[static_cast<size_t>(choice.partner)];
      for (size_t k = last.size() - std::min(last.size(), static_cast<size_t>(degree / 2));
           k < last.size(); ++k)
        REQUIRE(last[k] != choice.partner);
      last.push_back(choice.partner);
      ++met[static_cast<size_t>(choice.partner)];
      policy.offered(p);
      policy.release(now, p);
      policy.opened(now, partners, p);
      p.exchange.set_opened_at(now);
      policy.finished(0.01);
    }
    CHECK(static_cast<double>(last.size()) == Approx(rate * seconds).epsilon(0.03));
    for (const uint64_t count : met)
      CHECK(static_cast<double>(count) > 0.8 * rate * seconds / degree);
  }
}

TEST_CASE("a rank that is not due refuses, and one that has met a partner last refuses that one") {
  Partners partners = partners_of(2, 1);
  PartnerPolicy policy({});
  policy.learn(0, 2, 2);
  const double due = policy.choose(0, partners).again_at;
  REQUIRE(due < kNever);
  CHECK(policy.refusal(due - 0.6, partners, partners[0]) == DeclineReason::not_yet);
  CHECK(policy.refusal(due, partners, partners[0]) == DeclineReason::none);
  policy.opened(due, partners, partners[0]);
  policy.finished(0.01);
  const double next = policy.choose(due, partners).again_at;
  CHECK(policy.refusal(next, partners, partners[0]) == DeclineReason::repeat);
  CHECK(policy.refusal(next, partners, partners[1]) == DeclineReason::none);
  policy.drain();
  CHECK(policy.refusal(next, partners, partners[1]) == DeclineReason::busy);
}
