// The lines of settings that a Hello carries.
#include "messages/setting_lines.hpp"
#include "messages/control_codec.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE("settings cross as lines, and what fits into no line is left out") {
  const SettingLines lines{{"compress", ""}, {"lr", "0.1"}, {"topology", "edges:0-1=2"}};
  CHECK(text_of(lines) == "compress=\nlr=0.1\ntopology=edges:0-1=2\n");
  CHECK(setting_lines(text_of(lines)) == lines);
  CHECK(text_of({{"dataset", "two\nlines"}, {"model", std::string(96, 'm')}, {"", "x"}}) == "");
}

TEST_CASE("as many settings as there may be fit into a Hello") {
  SettingLines many;
  for (int k = 0; k < 200; ++k)
    many[std::to_string(k)] = "value";
  Hello hello;
  hello.node = "a";
  hello.settings = text_of(many);
  CHECK(hello.settings.size() > kSettingsBytes - 12);
  CHECK(encode_control(hello));
}

TEST_CASE("what is no line of a setting is nothing") {
  CHECK(setting_lines("").empty());
  CHECK(setting_lines("\n\n=\n=1\nlr\n" + std::string(40, 'n') + "=1\nlr=" + std::string(96, '1') +
                      "\n")
            .empty());
  CHECK(setting_lines("lr=1\nlr=2").at("lr") == "1");
}
