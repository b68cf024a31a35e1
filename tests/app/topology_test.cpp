// grapevine topology.
#include <fstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine::test;

TEST_CASE("the ring of 64 has the published constants, under the promised names") {
  const auto ring = json_of("topology ring --ranks 64");
  CHECK(ring["ranks"] == 64);
  CHECK(ring["edges"] == 64);
  CHECK(ring["chi1"].get<double>() == Approx(207.67253).epsilon(1e-7));
  CHECK(ring["chi2"].get<double>() == Approx(0.984375).epsilon(1e-9));
  CHECK(ring["eta"].get<double>() == Approx(0.034970).margin(5e-7));
  CHECK(ring["alpha"] == 0.5);
  CHECK(ring["alpha_tilde"].get<double>() == Approx(7.262385).margin(5e-7));
  CHECK(ring["eigenvalues"].size() == 64);
  CHECK(ring["degrees"] == nlohmann::json(std::vector<int>(64, 2)));
}

TEST_CASE("the expected exchanges are those of the proven rates") {
  const auto ring = json_of("topology ring --ranks 64");
  const double time = 2 * std::log(1e3) / ring["eta"].get<double>();
  CHECK(ring["expected_exchanges"].get<double>() == Approx(32 * time));
  CHECK(ring["expected_exchanges_ad_psgd"].get<double>() ==
        Approx(32 * 4 * std::log(1e3) * ring["chi1"].get<double>()));
}

TEST_CASE("a rate of 2 halves chi and keeps alpha~; a graph may come from a file") {
  const auto one = json_of("topology star --ranks 8"),
             two = json_of("topology star --ranks 8 --rate 2");
  CHECK(two["chi1"].get<double>() == Approx(one["chi1"].get<double>() / 2));
  CHECK(two["alpha_tilde"].get<double>() == Approx(one["alpha_tilde"].get<double>()));
  const Scratch scratch;
  const std::string pair = scratch.file("pair.txt", std::string("# one edge\n0 1 0.5\n"));
  const auto graph = json_of("topology " + pair + " --ranks 2");
  CHECK(graph["chi1"].get<double>() == Approx(1));
  CHECK(graph["degrees"] == nlohmann::json({1, 1}));
}

TEST_CASE("a graph from a file brings its number of ranks") {
  const Scratch scratch;
  std::string ring;
  for (int rank = 0; rank < 34; ++rank)
    ring += std::to_string(rank) + " " + std::to_string((rank + 1) % 34) + " 1\n";
  const std::string file = scratch.file("ring.txt", ring);
  CHECK(json_of("topology " + file)["ranks"] == 34);
  CHECK(json_of("topology spanning:" + file + "@3")["edges"] == 33);
  CHECK(json_of("simulate --until 1 --topology " + file)["ranks"] == 34);
  CHECK(json_of("topology " + file + " --ranks 34")["ranks"] == 34);
  for (const std::string other : {"16", "35"})  // 16: what a ring would have by default
    for (const std::string command : {"topology ", "simulate --until 1 --topology "})
      check_refused(command + file + " --ranks " + other, 2,
                    {"ranks is " + other + " with topology", "which has 34, accepted: 34"});
  const std::string open = scratch.file("open.txt", std::string("0 1 1\n3 4 1\n"));
  check_refused("topology " + open, 2, {"not connected", "rank 2"});
}

TEST_CASE("--svg draws the graph, and the table names what the JSON does") {
  const Scratch scratch;
  const Ran ran = run_grapevine("topology torus --ranks 16 --svg " + scratch.path("torus.svg"));
  CHECK(ran.status == 0);
  for (const char* word : {"degrees", "spectrum", "chi1", "chi2", "eta", "alpha~", "exchanges"})
    CHECK_THAT(ran.out, Catch::Contains(word));
  CHECK_THAT(text_of(scratch.path("torus.svg")), Catch::StartsWith("<svg"));
  check_refused("topology ring --svg /proc/x.svg", 1, {"/proc/x.svg"});
  const std::string edges = scratch.path("no\xff text");
  std::ofstream(edges) << "0 1\n";
  run_grapevine("topology '" + edges + "' --ranks 2 --svg " + scratch.path("two.svg"));
  CHECK_THAT(text_of(scratch.path("two.svg")), Catch::Contains("no\\xff text, 2 ranks"));
}

TEST_CASE("one rank alone is a graph") {
  const auto one = json_of("topology ring --ranks 1");
  CHECK(one["edges"] == 0);
  CHECK(run_grapevine("topology ring --ranks 1").status == 0);
}

TEST_CASE("commands that train no network do not load LibTorch") {
  const std::string trace = "LD_DEBUG=files";
  for (const std::string command :
       {"topology ring", "simulate --until 1", "simulate --objective quadratic --until 1"}) {
    const Ran ran = run_grapevine(command, trace);
    REQUIRE_THAT(ran.err, Catch::Contains("libcaf_core"));
    CHECK_THAT(ran.err, !Catch::Contains("libtorch"));
  }
}
