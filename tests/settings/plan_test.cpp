// A plan is checked before anything starts: one line that names key, value and what is accepted.
#include <cmath>

#include "actors/settings/plan.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

std::string refusal(const Plan& plan, bool wall_clock = false) {
  const Status status = check(plan, 16, wall_clock);
  if (status) return "";
  CHECK(status.error().exit_status() == 2);
  CHECK(status.error().message.find('\n') == std::string::npos);
  return status.error().message;
}

template <class Change>
std::string of_rank_fault(Change&& change) {
  Plan plan;
  change(plan.rank_faults.emplace_back());
  return refusal(plan);
}

template <class Change>
std::string of_link_fault(Change&& change) {
  Plan plan;
  change(plan.link_faults.emplace_back());
  return refusal(plan);
}

bool says(const std::string& message, const std::string& key, const std::string& value) {
  return message.find(key) != message.npos && message.find(value) != message.npos &&
         message.find("accepted") != message.npos;
}

}  // namespace

TEST_CASE("a plan that names rank 99 of 16 is refused, in ranks and in links") {
  CHECK(refusal({}) == "");
  CHECK(of_rank_fault([](RankFault& f) { f.ranks = {0, 15}; }) == "");
  for (const int rank : {99, 16, -1}) {
    const std::string number = std::to_string(rank);
    CHECK(says(of_rank_fault([&](RankFault& f) { f.ranks = {3, rank}; }), number, "0 to 15"));
    CHECK(says(of_link_fault([&](LinkFault& f) { f.ranks = {rank}; }), number, "0 to 15"));
    CHECK(says(of_link_fault([&](LinkFault& f) { f.links = {{1, rank}}; }), number, "0 to 15"));
    CHECK(says(of_link_fault([&](LinkFault& f) { f.links = {{rank, 1}}; }), number, "0 to 15"));
  }
}

TEST_CASE("times that run backwards, factors and probabilities out of range are refused") {
  const double nan = std::nan("");
  for (const auto& [at, until] :
       {std::pair{-1.0, 2.0}, {3.0, 3.0}, {3.0, 2.0}, {nan, 2.0}, {1.0, nan}, {kNever, kNever}}) {
    INFO(at << " to " << until);
    CHECK(says(of_rank_fault([&](RankFault& f) { f.at = at, f.until = until; }), "at", "until"));
    CHECK(says(of_link_fault([&](LinkFault& f) { f.at = at, f.until = until; }), "at", "until"));
  }
  for (const double factor : {0.0, -2.0, nan, kNever}) {
    CHECK(says(of_rank_fault([&](RankFault& f) { f.factor = factor; }), "factor", "above 0"));
    CHECK(says(of_link_fault([&](LinkFault& f) { f.factor = factor; }), "factor", "above 0"));
  }
  for (const double p : {-0.1, 1.1, nan})
    CHECK(says(of_link_fault([&](LinkFault& f) { f.probability = p; }), "probability", "0 to 1"));
  for (const double rate : {0.0, -1.0, nan, kNever})
    CHECK(says(of_link_fault([&](LinkFault& f) {
                 f.kind = LinkFaultKind::bandwidth;
                 f.bytes_per_second = rate;
               }),
               "bytes_per_second", "above 0"));
  for (const double s : {-1.0, nan, kNever})
    CHECK(says(of_link_fault([&](LinkFault& f) { f.seconds = s; }), "seconds", "0 or more"));
}

TEST_CASE("link faults are refused on the wall clock, other faults are not") {
  Plan links, ranks;
  links.link_faults.emplace_back();
  ranks.rank_faults.emplace_back();
  CHECK(refusal(links, false) == "");
  CHECK(refusal(links, true).find("simulate") != std::string::npos);
  CHECK(refusal(ranks, true) == "");
  CHECK_FALSE(links.empty());
  CHECK(Plan{}.empty());
}

TEST_CASE("a graph that cannot be made of the ranks is refused when the plan is read") {
  Plan plan;
  plan.reconfigurations.push_back({5, "exponential"});
  CHECK(refusal(plan) == "");
  CHECK(refusal({{}, {}, {{5, "exponental"}}}) != "");
  CHECK(check(plan, 12, false).error().exit_status() == 2);
  plan.reconfigurations[0].at = -1;
  CHECK(says(refusal(plan), "at", "-1"));
}

TEST_CASE("slowness is the product of the slow faults that hold, and of no others") {
  Plan plan;
  plan.rank_faults = {{RankFaultKind::slow, {1, 2}, 0, 10, 3},
                      {RankFaultKind::slow, {}, 5, 20, 2},
                      {RankFaultKind::pause, {1}, 0, 10, 7}};
  CHECK(plan.slowness(0, 0) == 1);
  CHECK(plan.slowness(1, 0) == 3);
  CHECK(plan.slowness(2, 5) == 6);
  CHECK(plan.slowness(1, 10) == 2);
  CHECK(plan.slowness(1, 20) == 1);
}

TEST_CASE("what is wrong with a plan is said with its place") {
  Plan plan;
  plan.rank_faults.emplace_back();
  plan.link_faults.emplace_back();
  plan.link_faults[0].where = "plan.toml:7";
  plan.link_faults[0].probability = 2;
  CHECK(refusal(plan).rfind("plan.toml:7: probability", 0) == 0);
}

TEST_CASE("what of a plan can have no effect is named with its place and the reason") {
  const auto lines = [](const Plan& plan, const char* topology = "ring", double until_s = 10) {
    std::string all;
    for (const std::string& line : without_effect(plan, topology, 16, until_s))
      all += line + "\n";
    return all;
  };
  Plan sound, plan;
  sound.link_faults.push_back({LinkFaultKind::cut, FrameClass::all, {}, {{3, 4}, {15, 0}}, 9});
  sound.rank_faults.push_back({RankFaultKind::slow, {1}, 0, kNever, 3});
  CHECK(lines(sound) == "");
  CHECK(lines(sound, "ring", 9) == "plan: without effect: it begins at 9 s, the run ends at 9 s\n");
  CHECK(lines(sound, "ring", 0) == "");  // no end
  plan.link_faults.push_back({LinkFaultKind::cut, FrameClass::all, {}, {{3, 5}}});
  plan.link_faults[0].where = "plan.toml:2";
  CHECK(lines(plan) == "plan.toml:2: without effect: ranks 3 and 5 are no neighbours\n");
  CHECK(lines(plan, "") == "");  // whoever talks to whom
  plan.reconfigurations.push_back({5, "complete"});
  CHECK(lines(plan) == "");
  plan = {};
  plan.link_faults.push_back({LinkFaultKind::loss, FrameClass::all, {}, {}, 0, kNever, 0});
  plan.rank_faults.push_back({RankFaultKind::slow, {}, 0, kNever, 1});
  CHECK(lines(plan) ==
        "plan: without effect: slower by the factor 1\n"
        "plan: without effect: probability is 0\n");
}
