// The walls of the house: reads the sources and fails when an arrow between rooms or a length is
// broken.
#include <iostream>
#include <string>

#include "tests/catch.hpp"
#include "tests/tidy/rules.hpp"

using namespace grapevine::tidy;

namespace {

std::string joined(const Complaints& complaints) {
  std::string text;
  for (const auto& line : complaints)
    text += line + "\n";
  return text;
}

// Printed rather than given to Catch, which would wrap the lines.
size_t said_aloud(const Complaints& complaints) {
  std::cout << joined(complaints);
  return complaints.size();
}

std::string complaint(const std::string& path, const std::string& text) {
  return joined(check_includes(path, text)) + joined(check_style(path, text));
}

template <class Check>
Complaints over(const Tree& tree, Check check) {
  Complaints all;
  for (const auto& [path, text] : tree) {
    for (const auto& line : check(path, text))
      all.push_back(line);
  }
  return all;
}

const std::string kLater =
    "TO"
    "DO";  // in two pieces, because this file is read too

}  // namespace

TEST_CASE("no include in the tree breaks an arrow between rooms or a library's wall") {
  const Tree tree = read_tree(GRAPEVINE_SOURCE_DIR);
  REQUIRE(tree.size() > 20);
  REQUIRE(tree.count("messages/codec.cpp") == 1);
  CHECK(said_aloud(over(tree, check_includes)) == 0);
}

TEST_CASE("no function or line in the tree is too long, and no banned word stands in it") {
  CHECK(said_aloud(over(read_tree(GRAPEVINE_SOURCE_DIR), check_style)) == 0);
}

TEST_CASE("no file reaches a third-party library through a header of another room") {
  CHECK(said_aloud(check_reach(read_tree(GRAPEVINE_SOURCE_DIR))) == 0);
}

TEST_CASE("an include upwards or sideways is named with its line and the arrow that is missing") {
  CHECK(complaint("messages/codec.cpp", "#include <span>\n#include \"models/zoo.hpp\"\n") ==
        "messages/codec.cpp:2: includes models/zoo.hpp, but no arrow leads from messages/ to "
        "models/\n");
  CHECK(complaint("kernels/a.cpp", "#include \"topologies/topology.hpp\"\n") != "");
  CHECK(complaint("topologies/a.cpp", "#include \"kernels/memory/vec.hpp\"\n") ==
        "topologies/a.cpp:1: includes kernels/memory/vec.hpp, but topologies/ takes only check, "
        "random, "
        "registry, result and spec of kernels/\n");
  CHECK(complaint("actors/algorithms/a.hpp", "#include \"messages/frame.hpp\"\n") != "");
  CHECK(complaint("actors/conversations/a.hpp", "#include \"actors/rank/worker.hpp\"\n") != "");
  CHECK(complaint("actors/transport/a.cpp", "#include \"topologies/topology.hpp\"\n") != "");
  CHECK(complaint("actors/rank/worker.cpp", "#include \"app/main.hpp\"\n") != "");
  CHECK(complaint("examples/ring.cpp", "#include \"app/config.hpp\"\n") != "");
  CHECK(complaint("kernels/a.cpp", "#  include <tests/catch.hpp>\n") != "");
  CHECK(complaint("kernels/a.cpp", "#include \"vec.hpp\"\n") ==
        "kernels/a.cpp:1: includes vec.hpp, not by its path from the root\n");
}

TEST_CASE("every arrow of the floor plan is allowed") {
  CHECK(complaint("topologies/a.cpp", "#include \"kernels/base/random.hpp\"\n") == "");
  CHECK(complaint("models/a.cpp", "#include \"topologies/topology.hpp\"\n") == "");
  CHECK(complaint("actors/algorithms/a.cpp", "#include \"kernels/passes/ops.hpp\"\n") == "");
  CHECK(complaint("actors/conversations/a.cpp", "#include \"messages/frame.hpp\"\n") == "");
  CHECK(complaint("actors/rank/worker.cpp", "#include \"models/objective.hpp\"\n") == "");
  CHECK(complaint("app/main.cpp", "#include \"actors/node/node.hpp\"\n") == "");
  CHECK(complaint("tests/a.cpp", "#include \"app/config.hpp\"\n") == "");
}

TEST_CASE("each library enters through its own folder") {
  const std::string torch = "#include <torch/nn.h>\n", caf = "#include <caf/all.hpp>\n";
  CHECK(complaint("models/a.cpp", torch) == "");
  CHECK(complaint("actors/rank/worker.cpp", torch) ==
        "actors/rank/worker.cpp:1: includes torch/nn.h, but LibTorch stays out of actors/\n");
  CHECK(complaint("actors/rank/worker.cpp", caf) == "");
  CHECK(complaint("actors/algorithms/a.cpp", caf) != "");
  CHECK(complaint("actors/conversations/a.cpp", caf) != "");
  CHECK(complaint("kernels/a.cpp", "#include <Eigen/Dense>\n") != "");
  CHECK(complaint("actors/a.cpp", "#include <capnp/message.h>\n") != "");
  CHECK(complaint("actors/a.cpp", "#include \"messages/wire.capnp.h\"\n") != "");
  CHECK(complaint("models/a.cpp", "#include <spdlog/spdlog.h>\n") != "");
  CHECK(complaint("actors/a.cpp", "#include <nlohmann/json.hpp>\n") != "");
  CHECK(complaint("actors/a.cpp", "#include <CLI/CLI.hpp>\n") != "");
  CHECK(complaint("actors/a.cpp", "#include <toml++/toml.h>\n") != "");
  CHECK(complaint("actors/a.cpp", "#include <cuda_runtime.h>\n") != "");
  CHECK(complaint("actors/a.cpp", "#include <nccl.h>\n") != "");
  CHECK(complaint("app/a.cpp", "#include <catch2/catch.hpp>\n") != "");
}

TEST_CASE("a library that hides in a header of ours is found in the room that must not see it") {
  const Tree tree{{"topologies/private.hpp", "#include <Eigen/Dense>\n"},
                  {"topologies/between.hpp", "#include \"topologies/private.hpp\"\n"},
                  {"topologies/a.cpp", "#include \"topologies/between.hpp\"\n"},
                  {"actors/a.cpp", "#include <vector>\n#include \"topologies/between.hpp\"\n"}};
  CHECK(joined(check_reach(tree)) ==
        "actors/a.cpp:2: reaches Eigen/Dense through topologies/private.hpp, but Eigen stays out "
        "of actors/\n");
}

TEST_CASE("a gradient, a snapshot and a new graph are read in few files, which are there") {
  const std::string readme = text_of(std::string(GRAPEVINE_SOURCE_DIR) + "/actors/README.md");
  CHECK(
      said_aloud(check_walks("actors", readme,
                             {{"a gradient", 7},
                              {"a snapshot from one process to another", 9},
                              {"`ctl reconfigure` until all ranks exchange on the new graph", 10}},
                             read_tree(GRAPEVINE_SOURCE_DIR))) == 0);
}

TEST_CASE("a walk through a file that is gone, too many of them or miscounted ones is named") {
  const Tree tree{{"actors/a.cpp", ""}, {"actors/b.hpp", ""}, {"kernels/c.hpp", ""}};
  const auto complaints = [&](const std::string& files) {
    return joined(check_walks("actors", "|---|---|\n| a thing | " + files, {{"a thing", 2}}, tree));
  };
  CHECK(complaints("`a`, (`a`), `kernels/c`: 2, and a line in `d` |\n") == "");
  CHECK(complaints("`a`, `d`: 2 |") ==
        "actors/README.md:2: a thing walks through d, which is not there\n");
  CHECK(complaints("`a`, `b`: 1 |") == "actors/README.md:2: a thing names 2 files, and says 1\n");
  CHECK(complaints("`a`, `b`, `kernels/c`: 3 |") ==
        "actors/README.md:2: a thing walks through 3 files, accepted: 2\n");
  CHECK(complaints("`a`") == "actors/README.md: no walk of a thing\n");
}

TEST_CASE("a long line or function is named with its length and what is accepted") {
  const auto times = [](size_t n, const std::string& line) {
    std::string text;
    for (size_t i = 0; i < n; ++i)
      text += line;
    return text;
  };
  CHECK(complaint("kernels/a.cpp", "//" + std::string(98, 'y')) == "");
  CHECK(complaint("kernels/a.cpp", "//" + std::string(99, 'y')) ==
        "kernels/a.cpp:1: 101 columns, accepted: 100\n");
  CHECK(complaint("kernels/a.cpp", "f(\"" + std::string(99, 'y') + "\");") == "");
  CHECK(complaint("kernels/a.cpp", times(30, "0.25, ")) == "");
  const std::string head = "int f(int a,\n      int b) {\n";
  CHECK(complaint("kernels/a.cpp", head + times(67, "  a += b;\n") + "}\n") == "");
  CHECK(complaint("kernels/a.cpp", "\n" + head + times(68, "  a += b;\n") + "}\n") ==
        "kernels/a.cpp:2: a function of 71 lines, accepted: 70\n");
}

TEST_CASE("promises to do it later, distributions of the standard library and sleeps are refused") {
  CHECK(complaint("kernels/a.cpp", "// " + kLater + ": x\n") ==
        "kernels/a.cpp:1: says " + kLater + ", do it or leave it\n");
  const std::string drawn = std::string("std::normal") + "_distribution<double> d;\n";
  CHECK(complaint("kernels/a.cpp", drawn) != "");
  const std::string nap = std::string("sleep") + "_for(1s);\n";
  CHECK(complaint("tests/a.cpp", nap) ==
        "tests/a.cpp:1: uses sleep"
        "_for, only app/ may sleep\n");
  CHECK(complaint("app/a.cpp", nap) == "");
}
