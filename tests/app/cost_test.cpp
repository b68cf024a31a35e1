// The use of a run's time: in its report, in its folder, and by grapevine cost.
#include <filesystem>
#include <fstream>

#include "app/output/json_output.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const std::string kQuadratics = " --objective quadratic --ranks 4 --lr 1e-3";

Json record_in(const std::string& folder) {
  return Json::parse(text_of(folder + "/run.json"), nullptr, false);
}

std::string record_with(const Scratch& scratch, const std::string& name, const std::string& text) {
  const std::string folder = scratch.path(name);
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/run.json") << text;
  return folder;
}

}  // namespace

TEST_CASE("a run ends with what its time went to, and its folder says the same") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const Ran ran = run_grapevine("train" + kQuadratics + " --gradients 40000 --out " + run);
  REQUIRE(ran.status == 0);
  CHECK_THAT(ran.out, Catch::Contains("  efficiency  ") && Catch::Contains(" of work in ") &&
                          Catch::Contains("  the rest  "));
  const Json cost = record_in(run)["result"]["cost"];
  double sum = 0;
  for (const auto& [part, seconds] : cost["parts"].items())
    sum += seconds.get<double>();
  CHECK(sum == Approx(cost["seconds"].get<double>()));
  CHECK(cost["steps"] == 40000);
  CHECK(cost["efficiency"].get<double>() > 0);
  CHECK(cost["efficiency"].get<double>() <= 1);
  const Json told = json_of("cost " + run + " --json");
  CHECK(told["parts"]["work"].get<double>() == Approx(cost["parts"]["work"].get<double>()));
  CHECK_THAT(run_grapevine("cost " + run).out, Catch::Contains("  efficiency  "));
}

TEST_CASE("a simulated run says which fault cost what") {
  const Scratch scratch;
  const std::string plan = scratch.file("plan.toml",
                                        "[[fault]]\nkind = \"pause\"\nranks = [2]\nat = 20\n"
                                        "until = 40\n");
  const Ran ran =
      run_grapevine("simulate" + kQuadratics + " --pacing greedy --until 100 --plan " + plan);
  REQUIRE(ran.status == 0);
  CHECK_THAT(ran.out, Catch::Contains("pause of rank 2 at 20.0 s: ") && Catch::Contains(" steps"));
  const Ran paced = run_grapevine("simulate" + kQuadratics + " --until 10");
  CHECK_THAT(paced.out, Catch::Contains("n/a"));  // its gradients take no time
}

TEST_CASE("with equal shares a run of which a rank has died is incomplete") {
  const Scratch scratch;
  // The work takes seconds, so the kill at its beginning finds the rank at work.
  const std::string run = scratch.path("run");
  const std::string all =
      kQuadratics + " --share equal --gradients 400000 --plan " +
      scratch.file("plan.toml", "[[fault]]\nkind = \"kill\"\nranks = [2]\nat = 0\n") + " --out ";
  const Ran ran = run_grapevine("train" + all + run);
  CHECK(ran.status == 1);
  CHECK_THAT(ran.err, Catch::Contains("the run is incomplete: 1 of 4 ranks here are gone") &&
                          Catch::Contains("--share pool"));
  CHECK(record_in(run)["state"] == "incomplete");
  CHECK(run_grapevine("simulate" + all + scratch.path("simulated")).status == 0);
  CHECK(record_in(scratch.path("simulated"))["state"] == "incomplete");
}

TEST_CASE("cost refuses what is no run that has ended") {
  const Scratch scratch;
  const std::string numbers =
      "\"seconds\":1,\"steps\":1,\"steps_per_second\":1,\"longest_gap_seconds\":1,"
      "\"longest_gap_steps\":1,\"parts\":{\"work\":1,\"contention\":0,"
      "\"waiting\":0,\"exchanges\":0,\"saving\":0,\"start\":0,\"end\":0,\"faults\":0}";
  const auto with_cost = [](const std::string& cost) {
    return "{\"result\":{\"cost\":" + cost + "}}";
  };
  const std::string bad[] = {
      "",
      "[]",
      "{\"result\":3}",
      with_cost("null"),
      with_cost("[1]"),
      with_cost("{" + numbers + "}"),
      with_cost("{" + numbers + ",\"lost\":[{\"what\":\"kill\",\"rank\":1e300}]}"),
      with_cost("{" + numbers + ",\"lost\":[{\"what\":\"flood\"}]}"),
      with_cost("{\"seconds\":1e999,\"steps\":1,\"steps_per_second\":1,\"parts\":{},\"lost\":[]}"),
  };
  for (size_t k = 0; k < std::size(bad); ++k) {
    INFO(bad[k]);
    check_refused("cost " + record_with(scratch, "run-" + std::to_string(k), bad[k]), 2,
                  {"has no result with the times of a run", "accepted: grapevine cost RUN"});
  }
  check_refused("cost " + scratch.path("nowhere"), 2, {"accepted: grapevine cost RUN"});
  check_refused("cost", 2, {"cost without a folder"});
  const std::string good = with_cost("{" + numbers + ",\"lost\":[]}");
  CHECK(json_of("cost " + record_with(scratch, "good", good) + " --json")["efficiency"] == 1);
}
