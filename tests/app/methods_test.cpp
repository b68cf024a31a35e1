// grapevine methods: the registry, for people.
#include "actors/algorithms/method_registry.hpp"

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("every method is listed with its equation, its paper and what it needs") {
  const Ran ran = run_grapevine("methods --json");
  REQUIRE(ran.status == 0);
  const auto list = nlohmann::json::parse(ran.out);
  CHECK(list.size() == all_methods().size());
  const std::string text = run_grapevine("methods").out, help = run_grapevine("train --help").out;
  for (const auto& method : list) {
    INFO(method.dump());
    for (const char* key : {"name", "what", "paper", "equation", "pattern", "graph", "takes"})
      CHECK_FALSE(method[key].get<std::string>().empty());
    CHECK_THAT(text, Catch::Contains(method["equation"].get<std::string>()));
    CHECK_THAT(help, Catch::Contains(method["name"].get<std::string>()));
  }
}
