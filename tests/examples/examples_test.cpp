#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/skipped.hpp"

namespace {

const std::string kSkipped = "skipped: ";

struct Ran {
  std::string out;
  int status = -1;
};

// Beside this program; what goes to standard error is only for whoever looks.
Ran run(const std::string& example) {
  Ran ran;
  const std::string command = GRAPEVINE_BINARY_DIR "/bin/" + example + " 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> block;
  while (const size_t n = std::fread(block.data(), 1, block.size(), pipe))
    ran.out.append(block.data(), n);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// The lines of the head comment below "// It prints:", without their "//   ".
std::string promised(const std::string& example) {
  const std::string path = GRAPEVINE_SOURCE_DIR "/examples/" + example + ".cpp";
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file.good());
  const std::string indent = "//   ";
  std::string promise;
  bool there = false;
  for (std::string line; std::getline(file, line) && line.starts_with("//");) {
    if (there && line.starts_with(indent)) promise += line.substr(indent.size()) + "\n";
    if (line == "// It prints:") there = true;
  }
  REQUIRE_FALSE(promise.empty());
  return promise;
}

void keeps_its_promise(const std::string& example) {
  const Ran ran = run(example);
  INFO(example);
  CHECK(ran.status == 0);
  CHECK(ran.out == promised(example));
}

void keeps_its_promise_or_says_why(const std::string& example) {
  const Ran ran = run(example);
  CHECK(ran.status == 0);
  if (ran.out.starts_with(kSkipped)) {
    grapevine::test::skipped(ran.out.substr(kSkipped.size(), ran.out.find('\n') - kSkipped.size()));
    CHECK(ran.out.size() > kSkipped.size() + 1);
  } else {
    CHECK(ran.out == promised(example));
  }
}

}  // namespace

TEST_CASE("the consensus example prints what it promises") { keeps_its_promise("1_consensus"); }

TEST_CASE("the quadratics example prints what it promises") { keeps_its_promise("2_quadratics"); }

TEST_CASE("the stragglers example prints what it promises") { keeps_its_promise("3_stragglers"); }

TEST_CASE("the image run prints what it promises, or says that it was skipped and why") {
  keeps_its_promise_or_says_why("4_images");
}

TEST_CASE("a network of one's own is trained in sixty lines to the accuracy of the zoo's") {
  std::ifstream file(GRAPEVINE_SOURCE_DIR "/examples/8_own_network.cpp");
  int lines = 0;
  bool program = false;
  for (std::string line; std::getline(file, line);) {
    program = program || !line.starts_with("//");
    lines += program;
  }
  CHECK(lines > 10);
  CHECK(lines <= 60);
  if (!std::filesystem::exists(GRAPEVINE_BINARY_DIR "/bin/8_own_network"))
    return grapevine::test::skipped("a network of one's own: this build has no LibTorch");
  keeps_its_promise_or_says_why("8_own_network");
}

TEST_CASE("the custom workers print what they promise") { keeps_its_promise("5_custom_worker"); }

TEST_CASE("the reconfiguring example prints what it promises") {
  keeps_its_promise("6_reconfigure");
}

TEST_CASE("two nodes in one program print what they promise") { keeps_its_promise("7_two_nodes"); }

TEST_CASE("a method and a graph from outside the library print what they promise") {
  keeps_its_promise("9_own_rule");
}

TEST_CASE("the sink of one's own prints what it promises") { keeps_its_promise("10_own_sink"); }

TEST_CASE("each of four guests in C++ prints what it promises") {
  const std::string bin = GRAPEVINE_BINARY_DIR "/bin/";
  // The output of guests is passed on to standard error.
  const Ran ran = run("../grapevine launch --guests 4 --no-save -- " + bin + "11_guest 2>&1");
  CHECK(ran.status == 0);
  for (int guest = 0; guest < 4; ++guest)
    CHECK_THAT(ran.out, Catch::Contains("[" + std::to_string(guest) + "] " + promised("11_guest")));
}
