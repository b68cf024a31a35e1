// The rules of the sources: reads them and fails when an include between folders or a length is
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

TEST_CASE("no include in the tree breaks the layers or the rule of a library") {
  const Tree tree = read_tree(GRAPEVINE_SOURCE_DIR);
  REQUIRE(tree.size() > 20);
  REQUIRE(tree.count("messages/codec.cpp") == 1);
  CHECK(said_aloud(over(tree, check_includes)) == 0);
}

TEST_CASE("no function or line in the tree is too long, and no banned word stands in it") {
  CHECK(said_aloud(over(read_tree(GRAPEVINE_SOURCE_DIR), check_style)) == 0);
}

TEST_CASE("no line of Python is too long") {
  const std::string root = GRAPEVINE_SOURCE_DIR;
  Complaints all;
  for (const std::string& path : list_files(root)) {
    if (!path.ends_with(".py")) continue;
    for (const std::string& line : check_script(path, text_of(root + "/" + path)))
      all.push_back(line);
  }
  CHECK(said_aloud(all) == 0);
}

TEST_CASE("no file reaches a third-party library through a header of another folder") {
  CHECK(said_aloud(check_reach(read_tree(GRAPEVINE_SOURCE_DIR))) == 0);
}

TEST_CASE("an include upwards or sideways is named with its line and the two folders") {
  CHECK(
      complaint("messages/codec.cpp", "#include <span>\n#include \"models/zoo.hpp\"\n") ==
      "messages/codec.cpp:2: includes models/zoo.hpp, but no include is allowed from messages/ to "
      "models/\n");
  CHECK(complaint("kernels/base/a.cpp", "#include \"topologies/topology.hpp\"\n") != "");
  CHECK(complaint("topologies/a.cpp", "#include \"kernels/memory/vec.hpp\"\n") ==
        "topologies/a.cpp:1: includes kernels/memory/vec.hpp, but topologies/ takes only basic "
        "tools of kernels/base/\n");
  CHECK(complaint("actors/algorithms/a.hpp", "#include \"messages/frame.hpp\"\n") != "");
  CHECK(complaint("actors/conversations/a.hpp", "#include \"actors/rank/worker.hpp\"\n") != "");
  CHECK(complaint("actors/transport/a.cpp", "#include \"topologies/topology.hpp\"\n") != "");
  CHECK(complaint("actors/rank/worker.cpp", "#include \"app/output/log.hpp\"\n") != "");
  CHECK(complaint("examples/ring.cpp", "#include \"app/options/options.hpp\"\n") != "");
  CHECK(complaint("kernels/base/a.cpp", "#  include <tests/catch.hpp>\n") != "");
  CHECK(complaint("kernels/base/a.cpp", "#include \"vec.hpp\"\n") ==
        "kernels/base/a.cpp:1: includes vec.hpp, not by its path from the root\n");
}

TEST_CASE("an include from a lower layer of a part to a higher one is named, and one beside it") {
  const auto named = [](const std::string& from, const std::string& to) {
    return complaint(from, "#include \"" + to + "\"\n");
  };
  CHECK(
      named("actors/settings/settings.cpp", "actors/run/gpu.hpp") ==
      "actors/settings/settings.cpp:1: includes actors/run/gpu.hpp, but no include is allowed from "
      "actors/settings/ to actors/run/\n");
  CHECK(named("actors/run/gpu.cpp", "actors/settings/settings.hpp") == "");
  CHECK(named("actors/mail/mail.hpp", "actors/device/device_share.hpp") != "");
  CHECK(named("actors/membership/prober.cpp", "actors/clocks/run_clock.hpp") != "");
  CHECK(named("kernels/memory/vec.cpp", "kernels/passes/ops.hpp") ==
        "kernels/memory/vec.cpp:1: includes kernels/passes/ops.hpp, but no include is allowed from "
        "kernels/memory/ to kernels/passes/\n");
  CHECK(named("kernels/passes/cpu/sums.hpp", "kernels/memory/vec.hpp") == "");
  CHECK(named("models/data/idx.cpp", "models/objective.hpp") != "");
  CHECK(named("models/network/networks.cpp", "models/objective.hpp") == "");
  CHECK(named("app/output/report.cpp", "app/run/execute.hpp") ==
        "app/output/report.cpp:1: includes app/run/execute.hpp, but no include is allowed from "
        "app/output/ to app/run/\n");
  CHECK(named("app/compare/job.cpp", "app/launch/report.hpp") != "");
  CHECK(named("app/main.cpp", "app/launch/report.hpp") == "");
}

TEST_CASE("a source that is in a part and in none of its folders is named") {
  CHECK(complaint("actors/worker.cpp", "") ==
        "actors/worker.cpp:1: is at the top of actors/, in none of its folders\n");
  CHECK(complaint("kernels/vec.cpp", "") != "");
  CHECK(complaint("app/main.cpp", "") == "");
  CHECK(complaint("topologies/trees.cpp", "") == "");
}

TEST_CASE("every include that the layers allow is accepted") {
  CHECK(complaint("topologies/a.cpp", "#include \"kernels/base/random.hpp\"\n") == "");
  CHECK(complaint("models/a.cpp", "#include \"topologies/topology.hpp\"\n") == "");
  CHECK(complaint("actors/algorithms/a.cpp", "#include \"kernels/passes/ops.hpp\"\n") == "");
  CHECK(complaint("actors/conversations/a.cpp", "#include \"messages/frame.hpp\"\n") == "");
  CHECK(complaint("actors/rank/worker.cpp", "#include \"models/objective.hpp\"\n") == "");
  CHECK(complaint("app/main.cpp", "#include \"actors/node/node.hpp\"\n") == "");
  CHECK(complaint("tests/a.cpp", "#include \"app/options/options.hpp\"\n") == "");
}

TEST_CASE("each library enters through its own folder") {
  const std::string torch = "#include <torch/nn.h>\n", caf = "#include <caf/all.hpp>\n";
  CHECK(complaint("models/network/a.cpp", torch) == "");
  CHECK(complaint("actors/rank/worker.cpp", torch) ==
        "actors/rank/worker.cpp:1: includes torch/nn.h, but LibTorch stays out of actors/rank/\n");
  CHECK(complaint("actors/rank/worker.cpp", caf) == "");
  CHECK(complaint("actors/algorithms/a.cpp", caf) != "");
  CHECK(complaint("actors/conversations/a.cpp", caf) != "");
  CHECK(complaint("kernels/base/a.cpp", "#include <Eigen/Dense>\n") != "");
  CHECK(complaint("actors/run/a.cpp", "#include <capnp/message.h>\n") != "");
  CHECK(complaint("actors/run/a.cpp", "#include \"messages/wire.capnp.h\"\n") != "");
  CHECK(complaint("models/a.cpp", "#include <spdlog/spdlog.h>\n") != "");
  CHECK(complaint("actors/run/a.cpp", "#include <nlohmann/json.hpp>\n") != "");
  CHECK(complaint("actors/run/a.cpp", "#include <CLI/CLI.hpp>\n") != "");
  CHECK(complaint("actors/run/a.cpp", "#include <toml++/toml.h>\n") != "");
  CHECK(complaint("actors/run/a.cpp", "#include <cuda_runtime.h>\n") != "");
  CHECK(complaint("actors/run/a.cpp", "#include <nccl.h>\n") != "");
  CHECK(complaint("app/output/a.cpp", "#include <catch2/catch.hpp>\n") != "");
}

TEST_CASE("a library that hides in a header of ours is found in the folder that must not see it") {
  const Tree tree{{"topologies/private.hpp", "#include <Eigen/Dense>\n"},
                  {"topologies/between.hpp", "#include \"topologies/private.hpp\"\n"},
                  {"topologies/a.cpp", "#include \"topologies/between.hpp\"\n"},
                  {"actors/run/a.cpp", "#include <vector>\n#include \"topologies/between.hpp\"\n"}};
  CHECK(
      joined(check_reach(tree)) ==
      "actors/run/a.cpp:2: reaches Eigen/Dense through topologies/private.hpp, but Eigen stays out "
      "of actors/run/\n");
}

TEST_CASE("the files that a gradient, a snapshot and a new graph pass through are there") {
  const std::string root = GRAPEVINE_SOURCE_DIR, page = "actors/WALKS.md";
  CHECK(said_aloud(check_walks(page, text_of(root + "/" + page), list_files(root))) == 0);
}

TEST_CASE("a walk through a file that is gone, or through another number of files, is named") {
  const Files files{"actors/a.cpp", "actors/b.hpp", "kernels/c.cu"};
  const auto complaints = [&](const std::string& page) {
    return joined(check_walks("WALKS.md", page, files));
  };
  CHECK(complaints("## a thing: 2 files\n\n| file | what |\n|---|---|\n| `actors/a` | begins |\n"
                   "| `kernels/c` | ends |\n\n## another: 1 files\n| `actors/b` | is it |\n") ==
        "");
  CHECK(complaints("## a thing: 1 files\n| `actors/d` | ends |\n") ==
        "WALKS.md: a thing walks through actors/d, which is not there\n");
  CHECK(complaints("## a thing: 2 files\n| `actors/a` | ends |\n") ==
        "WALKS.md: a thing names 1 files, and says 2\n");
  CHECK(complaints("nothing\n") == "WALKS.md: no walk\n");
}

TEST_CASE("every folder has a page of at most 60 lines, whose files are there") {
  const std::string root = GRAPEVINE_SOURCE_DIR;
  const Files files = list_files(root);
  Complaints all;
  for (const std::string& page : pages()) {
    if (!files.count(page)) all.push_back(page + " is not there");
    for (const std::string& line : check_page(page, text_of(root + "/" + page), files))
      all.push_back(line);
  }
  CHECK(said_aloud(all) == 0);
}

TEST_CASE("a page that is too long, or tells of a file that is gone, is named") {
  const Files files{"actors/rank/worker.cpp", "actors/rank/mail.hpp", "actors/rank/in/a.svg"};
  const auto complaints = [&](const std::string& text) {
    return joined(check_page("actors/rank/README.md", text, files));
  };
  const std::string head = "| file | what it is |\n|---|---|\n";
  CHECK(complaints(head + "| `worker`, `mail.hpp` | actors, `nothing` |\n| `in/` | a folder |\n") ==
        "");
  CHECK(complaints("| word | what |\n|---|---|\n| `gone` | no file |\n") == "");
  CHECK(complaints(head + "| `worker`, `gone` | actors |\n") ==
        "actors/rank/README.md:3: tells of gone, which is not there\n");
  std::string lines;
  for (int i = 0; i < 61; ++i)
    lines += "a line\n";
  CHECK(complaints(lines) == "actors/rank/README.md: 61 lines, accepted: 60\n");
}

TEST_CASE("every file that a comment names is there") {
  const Files endings = endings_of(list_files(GRAPEVINE_SOURCE_DIR));
  CHECK(said_aloud(over(read_tree(GRAPEVINE_SOURCE_DIR),
                        [&](const std::string& path, const std::string& text) {
                          return check_names(path, text, endings);
                        })) == 0);
}

TEST_CASE("a comment that names a file that is gone is told with its line") {
  const Files endings = endings_of({"actors/rank/worker.cpp"});
  const auto complaints = [&](const std::string& text) {
    return joined(check_names("app/a.cpp", text, endings));
  };
  CHECK(complaints("// As worker.cpp, rank/worker.cpp and actors/rank/worker.cpp have it.\n") ==
        "");
  CHECK(complaints("int x;  // see old_worker."
                   "cpp, line 3\n") ==
        "app/a.cpp:1: names old_worker."
        "cpp, which is not there\n");
  CHECK(complaints("const char* url = \"http://a/b.html\";  // std::worker.cpp\n") == "");
}

TEST_CASE("a long line or function is named with its length and what is accepted") {
  const auto times = [](size_t n, const std::string& line) {
    std::string text;
    for (size_t i = 0; i < n; ++i)
      text += line;
    return text;
  };
  CHECK(complaint("kernels/base/a.cpp", "//" + std::string(98, 'y')) == "");
  CHECK(complaint("kernels/base/a.cpp", "//" + std::string(99, 'y')) ==
        "kernels/base/a.cpp:1: 101 columns, accepted: 100\n");
  CHECK(complaint("kernels/base/a.cpp", "f(\"" + std::string(99, 'y') + "\");") == "");
  CHECK(joined(check_script("a.py", "f(\"" + std::string(95, 'y') + "\")")) == "");
  CHECK(joined(check_script("a.py", "f(\"" + std::string(96, 'y') + "\")")) ==
        "a.py:1: 101 columns, accepted: 100\n");
  CHECK(complaint("kernels/base/a.cpp", times(30, "0.25, ")) == "");
  const std::string head = "int f(int a,\n      int b) {\n";
  CHECK(complaint("kernels/base/a.cpp", head + times(67, "  a += b;\n") + "}\n") == "");
  CHECK(complaint("kernels/base/a.cpp", "\n" + head + times(68, "  a += b;\n") + "}\n") ==
        "kernels/base/a.cpp:2: a function of 71 lines, accepted: 70\n");
}

TEST_CASE(
    "promises to do it later, the standard library's distributions and mutexes, and sleeps are "
    "refused") {
  CHECK(complaint("kernels/base/a.cpp", "// " + kLater + ": x\n") ==
        "kernels/base/a.cpp:1: says " + kLater + ", do it or leave it\n");
  const std::string drawn = std::string("std::normal") + "_distribution<double> d;\n";
  CHECK(complaint("kernels/base/a.cpp", drawn) != "");
  const std::string nap = std::string("sleep") + "_for(1s);\n";
  CHECK(complaint("tests/a.cpp", nap) ==
        "tests/a.cpp:1: uses sleep"
        "_for, only app/ may sleep\n");
  CHECK(complaint("app/output/a.cpp", nap) == "");
  CHECK(complaint("app/output/a.cpp", "std::mutex turn;\n") ==
        "app/output/a.cpp:1: uses std::mutex, accepted: Mutex and SharedMutex, whose members clang "
        "checks\n");
}
