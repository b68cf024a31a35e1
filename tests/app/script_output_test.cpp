// The output of scripts, passed on: characters that come in two pieces, and lines of any length.
#include "app/launch/script_output.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("a character that a script has written in two pieces is shown whole") {
  const Scratch scratch;
  const std::string path = scratch.path("shown");
  std::FILE* stream = std::fopen(path.c_str(), "w");
  REQUIRE(stream != nullptr);
  const Log log({});
  ScriptOutput output(stream, 2, LogFormat::text, log);
  const ScriptOutput::Clock::time_point begin{}, later = begin + std::chrono::seconds(1);
  output.put(0, 0, "gr\xc3", begin);
  output.flush(0, 0, false, later);
  output.flush(0, 0, false, later);  // there is nothing more to show
  output.put(1, 1, "other\n", later);
  output.put(0, 0, "\xbc\xc3\x9f\xe2\x82", later);
  output.flush(0, 0, true, later);  // it has ended in the middle of one
  std::fclose(stream);
  CHECK(text_of(path) == "[0] gr\n[1] other\n[0] \xc3\xbc\xc3\x9f\xe2\x82\n");
}

TEST_CASE("a long line of a script is cut between characters, and bytes that are no text pass") {
  const Ran ran = run_grapevine(
      "launch --guests 1 --gradients 10 --log-format json -- sh -c "
      "'{ printf x; yes \xc3\xa4 | head -n 80000 | tr -d \"\\n\"; printf \"\\n\\377\\n\"; } >&2'");
  CHECK(ran.status == 1);  // no script has joined
  std::istringstream lines(ran.err);
  std::string said;
  int odd = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    REQUIRE(object.is_object());
    const std::string event = object["event"];
    if (event.starts_with("[0] x") || event.starts_with("[0] \xc3\xa4")) said += event.substr(4);
    odd += event == "[0] \xef\xbf\xbd";
  }
  CHECK(said.size() == 1 + 2 * 80000);
  CHECK(said.find("\xef\xbf\xbd") == said.npos);
  CHECK(odd == 1);
}
