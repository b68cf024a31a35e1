// grapevine reproduce: published figures beside what the actors give.
#include <set>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine::test;

namespace {

nlohmann::json claims_of(const std::string& arguments, int status) {
  const Ran ran = run_grapevine("reproduce " + arguments + " --json");
  INFO(arguments << "\n" << ran.err);
  REQUIRE(ran.status == status);
  const nlohmann::json object = nlohmann::json::parse(ran.out, nullptr, false);
  REQUIRE(object.is_object());
  for (const auto& claim : object["claims"]) {
    CHECK(claim["what"].is_string());
    for (const char* number : {"expected", "tolerance"})
      CHECK(claim[number].is_number());
    CHECK((claim["measured"].is_number() || claim["measured"].is_null()));  // null: never reached
    CHECK(claim["ok"].is_boolean());
  }
  return object;
}

}  // namespace

TEST_CASE("reproduce --list names each family of claims once, with a sentence") {
  const auto list = json_of("reproduce --list")["reproductions"];
  std::set<std::string> names;
  for (const auto& entry : list) {
    CHECK(entry["sentence"].get<std::string>().size() > 10);
    names.insert(entry["name"].get<std::string>());
  }
  CHECK(names.size() == list.size());
  for (const char* name : {"a2cid2-communications", "quadratics", "consensus", "message-loss",
                           "delivery", "mean-estimation", "scalar", "matrix", "learning-rate",
                           "relay-counts", "bytes", "straggler", "local-steps"})
    CHECK(names.count(name) == 1);
  const Ran table = run_grapevine("reproduce --list");
  CHECK(table.status == 0);
  CHECK_THAT(table.out, Catch::Contains("quadratics") && Catch::Contains("all"));
}

TEST_CASE("a family that holds ends with status 0, and every claim has its promised names") {
  for (const std::string name :
       {"delivery", "relay-counts", "matrix", "mean-estimation", "local-steps"}) {
    const auto object = claims_of(name, 0);
    CHECK(object["name"] == name);
    CHECK(object["claims"].size() >= 5);
    for (const auto& claim : object["claims"]) {
      INFO(claim.dump());
      CHECK(claim["ok"] == true);
    }
  }
}

TEST_CASE("the table has a verdict a claim and a count of those that hold") {
  const Ran ran = run_grapevine("reproduce relay-counts");
  CHECK(ran.status == 0);
  CHECK_THAT(ran.out, Catch::Contains("expected") && Catch::Contains("measured") &&
                          Catch::Contains("11 of 11 claims hold"));
  CHECK_THAT(ran.out, !Catch::Contains("NOT MET"));
}

TEST_CASE("a run that is too short does not hold, and the exit status says so") {
  const auto object = claims_of("consensus --steps 12", 1);
  int hold = 0, fail = 0;
  for (const auto& claim : object["claims"])
    ++(claim["ok"] == true ? hold : fail);
  CHECK(hold == 2);  // the uncompressed ones, to a thousandth in 11 rounds
  CHECK(fail == 26);
  const Ran table = run_grapevine("reproduce consensus --steps 12");
  CHECK(table.status == 1);
  CHECK_THAT(table.out, Catch::Contains("NOT MET") && Catch::Contains("2 of 28 claims hold"));
}

TEST_CASE("one seed, one figure: two runs of a family say the same") {
  const std::string name = "straggler --steps 40";
  CHECK(claims_of(name, 1) == claims_of(name + " --threads 1", 1));
}

TEST_CASE("an unknown family is refused with those that there are") {
  check_refused("reproduce miracles", 2,
                {"name is \"miracles\"", "accepted: ", "quadratics", "message-loss", "all"});
  check_refused("reproduce --speed 3", 2, {"--speed", "accepted: "});
}
