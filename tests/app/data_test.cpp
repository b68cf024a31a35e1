// grapevine data: what a partition gives to each rank.
#include <algorithm>
#include <map>
#include <numeric>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine::test;
using nlohmann::json;

TEST_CASE("data refuses what has no labels") {
  check_refused("data --objective quadratic", 2, {"\"quadratic\"", "no labels", "network"});
  check_refused("data --dataset text:book.txt", 2, {"text:book.txt", "a text", "accepted"});
  check_refused("data --lr 1", 2, {"--lr", "belongs to"});
}

#ifdef GRAPEVINE_HAS_NETWORKS
namespace {

json partition_of(const Scratch& scratch, const std::string& partition, int seed = 1) {
  return json_of("data --dataset optdigits --ranks 4 --data " + scratch.path() + " --partition " +
                 partition + " --seed " + std::to_string(seed));
}

uint64_t sum(const json& row) {
  return std::accumulate(row.begin(), row.end(), uint64_t{0},
                         [](uint64_t n, const json& x) { return n + x.get<uint64_t>(); });
}

int labels_in(const json& row) {
  return static_cast<int>(
      std::count_if(row.begin(), row.end(), [](const json& x) { return x.get<int>() > 0; }));
}

}  // namespace

TEST_CASE("every sample is on one rank, and how labels spread is what the partition says") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 40);
  std::map<std::string, json> data;
  for (const std::string partition : {"iid", "label", "dirichlet:0.1"}) {
    const json& d = data[partition] = partition_of(scratch, partition);
    CHECK(d["partition"] == partition);
    CHECK(d["ranks"] == 4);
    CHECK(d["labels"] == json({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    REQUIRE(d["counts"].size() == 4);
    for (size_t rank = 0; rank < 4; ++rank) {
      CHECK(d["counts"][rank].size() == 10);
      CHECK(sum(d["counts"][rank]) == d["sizes"][rank]);
    }
    CHECK(sum(d["sizes"]) == 320);
  }
  for (size_t rank = 0; rank < 4; ++rank) {
    CHECK(labels_in(data["iid"]["counts"][rank]) == 10);
    CHECK(labels_in(data["label"]["counts"][rank]) <= 5);
  }
  CHECK(partition_of(scratch, "dirichlet:0.1") == data["dirichlet:0.1"]);
  CHECK(partition_of(scratch, "dirichlet:0.1", 2)["counts"] != data["dirichlet:0.1"]["counts"]);
}

TEST_CASE("the table has a line for each rank and says how far apart they are") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 40);
  const Ran ran = run_grapevine("data --dataset optdigits --ranks 2 --partition label --data " +
                                scratch.path());
  CHECK(ran.status == 0);
  for (const char* word : {"optdigits over 2 ranks, partition label, seed 1", "\n     0  ",
                           "\n     1  ", "     160  ", "most frequent label"})
    CHECK_THAT(ran.out, Catch::Contains(word));
  check_refused("data --dataset optdigits --partition magic --data " + scratch.path(), 2,
                {"magic", "dirichlet"});
  check_refused("data --data " + scratch.path("nowhere"), 2, {"nowhere"});
}
#endif
