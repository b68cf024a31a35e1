// Nodes of one host: where the models that they exchange lie.
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("nodes of one host read each other's large models in place, small ones come by socket") {
  for (const auto& [dim, path] :
       {std::pair("--dim=100000", "shared memory"), std::pair("--dim=100", "unix")}) {
    const auto nodes = start_nodes(2, 1,
                                   {"--objective=consensus", "--method=ad_psgd", "--topology=chain",
                                    "--rate=50", "--gradients=0", "--until=600", dim});
    for (const auto& node : nodes) {
      const Json status = node->wait_for([](const Json& s) {
        return s["links"].size() == 1 && s["links"][0]["bulk"] != "none" &&
               sum_of(s["exchanges"]) >= 20;
      });
      CHECK(status["links"][0]["bulk"] == path);
      CHECK(status["links"][0]["lost"] == 0);
    }
    REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " stop").status == 0);
    for (const auto& node : nodes)
      CHECK(node->end() == 0);
  }
}
