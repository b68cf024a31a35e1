// The configuration file and the command line: one table of options behind both.
#include <algorithm>

#include "app/commands/command_line.hpp"
#include "app/options/config_file.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

Options options_of(std::vector<std::string> words) {
  std::vector<char*> argv;
  words.insert(words.begin(), "grapevine");
  for (std::string& word : words)
    argv.push_back(word.data());
  CommandLine line = read_command_line(static_cast<int>(argv.size()), argv.data());
  if (const auto* error = std::get_if<Error>(&line)) FAIL(error->message);
  return std::get<Invocation>(line).options;
}

// Another value than the row has now, as a file would write it.
std::string other_value(const Option& option) {
  const std::string now = option_text(option);
  if (const auto* choice = std::get_if<Choice>(&option.field))
    return "\"" + choice->names[choice->get() == 0 ? 1 : 0] + "\"";
  if (std::holds_alternative<bool*>(option.field)) return now == "true" ? "false" : "true";
  if (std::holds_alternative<std::string*>(option.field)) return "\"other\"";
  if (std::holds_alternative<double*>(option.field)) return "0.4375";
  return now == "7" ? "8" : "7";
}

}  // namespace

TEST_CASE("a configuration file may set every option but --config itself") {
  Options before;
  size_t set = 0;
  for (const Option& option : option_table(before)) {
    const std::string name = option.name;
    if (name == "config") continue;
    const Scratch scratch;
    const std::string value = other_value(option);
    std::string key = name;
    if (++set % 2 == 0) std::replace(key.begin(), key.end(), '-', '_');
    const std::string path = scratch.file("c.toml", key + " = " + value + "\n");
    const auto entries = read_config(path, option_table(before));
    INFO(key << " = " << value);
    REQUIRE(entries);
    REQUIRE(entries->size() == 1);
    Options after;
    const OptionTable table = option_table(after);
    const Option* row = find_option(table, entries->front().name);
    REQUIRE(row != nullptr);
    REQUIRE(set_option(*row, entries->front().text));
    CHECK(option_text(*row) != option_text(option));
    CHECK((value == option_text(*row) || value == "\"" + option_text(*row) + "\""));
  }
  CHECK(set > 40);
}

TEST_CASE("the command line wins over the file, and the file over the defaults") {
  const Scratch scratch;
  const std::string file = scratch.file(
      "c.toml", std::string("ranks = 8\ntopology = \"star\"\nlr = 0.25\npairing = \"free\"\n"));
  const Options o = options_of({"simulate", "--config", file, "--ranks", "4"});
  CHECK(o.settings.ranks == 4);
  CHECK(o.settings.topology == "star");
  CHECK(o.settings.lr.peak == 0.25);
  CHECK(o.settings.pairing == Pairing::free);
  CHECK(o.settings.pacing == Pacing::poisson);
}

TEST_CASE("without options train is the main job, and simulate the paper's process") {
  const Settings t = options_of({"train"}).settings;
  CHECK(t.clock == Clock::wall);
  CHECK(t.ranks == 16);
  CHECK(t.topology == "ring");
  CHECK(t.method == "a2cid2");
  CHECK(t.rate == 1);
  CHECK(t.gradients == 40000);
  CHECK(t.pacing == Pacing::greedy);
  CHECK(t.pairing == Pairing::free);
  CHECK(t.objective.objective == "network");
  CHECK(t.objective.model == "cnn-small");
  CHECK(t.objective.batch == 16);
  CHECK(t.rule.optimizer.momentum == 0.9);
  CHECK(t.rule.optimizer.weight_decay == 5e-4);
  const Settings s = options_of({"simulate"}).settings;
  CHECK(s.clock == Clock::simulated);
  CHECK(s.pacing == Pacing::poisson);
  CHECK(s.pairing == Pairing::poisson);
  CHECK(s.objective.objective == "consensus");
  CHECK(s.until_s == 100);
}

TEST_CASE("an analytic objective starts without momentum, decay or an end, wherever it is named") {
  const Scratch scratch;
  const std::string file = scratch.file("c.toml", std::string("objective = \"quadratic\"\n"));
  for (const Options& o : {options_of({"simulate", "--objective", "quadratic"}),
                           options_of({"simulate", "--config", file})}) {
    CHECK(o.settings.rule.optimizer.momentum == 0);
    CHECK(o.settings.rule.optimizer.weight_decay == 0);
    CHECK(o.settings.gradients == 0);
    CHECK(o.settings.until_s == 100);
  }
}

TEST_CASE("flags are taken in both directions") {
  CHECK(options_of({"simulate", "--nesterov"}).settings.rule.optimizer.nesterov);
  CHECK_FALSE(options_of({"simulate", "--no-flip"}).settings.objective.flip);
  const Options last = options_of({"simulate", "--nesterov", "--no-nesterov"});
  CHECK_FALSE(last.settings.rule.optimizer.nesterov);
}

TEST_CASE("a configuration's mistake is named with its file, its line and what is accepted") {
  const Scratch scratch;
  const auto config = [&](const char* text) {
    return "simulate --config " + scratch.file("c.toml", std::string(text));
  };
  check_refused(config("seed = 1\nmomentun = 0.9\n"), 2,
                {"c.toml:2: unknown key momentun", "mean momentum, ", "--help"});
  check_refused(config("ranks = \"16\"\n"), 2,
                {"c.toml:1: ranks is \"16\"", "accepted: a whole number"});
  check_refused(config("ranks = 1.5\n"), 2, {"c.toml:1: ranks is 1.5", "a whole number"});
  check_refused(config("method = 3\n"), 2, {"c.toml:1: method is 3", "accepted: a string"});
  check_refused(config("\npairing = \"fast\"\n"), 2,
                {"c.toml:2: pairing is \"fast\"", "accepted: free, poisson"});
  check_refused(config("config = \"more.toml\"\n"), 2, {"c.toml:1: unknown key config"});
  check_refused(config("ranks = = 3\n"), 2, {"c.toml:1: "});
  check_refused("simulate --config " + scratch.path("none.toml"), 2, {"none.toml"});
}

TEST_CASE("the nearest name is suggested only where one is near") {
  CHECK(nearest("momentun", {"lr", "momentum"}) == " (did you mean momentum?)");
  CHECK(nearest("gradient_seconds", {"gradients", "gradient-seconds"}) ==
        " (did you mean gradient-seconds?)");
  CHECK(nearest("frobnicate", {"lr", "momentum"}) == "");
  CHECK(three_nearest("rnaks", {"dim", "ranks", "rate", "mu"}, "--") ==
        " (did you mean --ranks, --rate, --dim?)");
}

TEST_CASE("every command shows its options and examples, and the program its version") {
  for (const std::string command : {"train", "simulate", "topology"}) {
    const Ran help = run_grapevine(command + " --help");
    CHECK(help.status == 0);
    CHECK(help.err == "");
    CHECK_THAT(help.out, Catch::Contains("Usage: grapevine " + command + " "));
    CHECK_THAT(help.out, Catch::Contains("Examples:\n  grapevine " + command));
    CHECK_THAT(help.out, Catch::Contains("--topology SPEC"));
    CHECK_THAT(help.out, !Catch::Contains("{false}") && !Catch::Contains("--no-no-"));
  }
  const std::string train = run_grapevine("train --help").out;
  for (const char* name : {"a2cid2",
                           "relaysgd",
                           "all_reduce",
                           "linear",
                           "mlp",
                           "cnn-small",
                           "cnn-big",
                           "resnet18",
                           "lm-char",
                           "lm-word",
                           "fashion-mnist",
                           "mnist",
                           "cifar10",
                           "optdigits",
                           "a9a",
                           "w8a",
                           "tiny-shakespeare",
                           "wikitext-2",
                           "text:FILE",
                           "FILE.npz",
                           "FILE.csv",
                           "--nesterov",
                           "--no-nesterov"})
    CHECK_THAT(train, Catch::Contains(name));
  CHECK_THAT(run_grapevine("--help").out, Catch::Contains("simulate"));
  const Ran version = run_grapevine("--version");
  CHECK_THAT(version.out, Catch::Matches("grapevine [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_CASE("a file that is no text of a user's is one line each, whatever is in it") {
  const Scratch scratch;
  std::string deep = "a";
  for (int k = 0; k < 100'000; ++k)
    deep += ".b";
  const std::string keys[] = {deep + " = 1", "[" + deep + "]", "a = { " + deep + " = 1 }",
                              std::string(3'000'000, 'a') + " = 1"};
  const char* const words[] = {"more than 32 dots", "more than 32 dots", "more than 32 dots",
                               "unknown key aaaaa"};
  for (size_t k = 0; k < std::size(keys); ++k) {
    const std::string file = scratch.file("options.toml", keys[k]);
    check_refused("train --config " + file, 2, {"options.toml", words[k]});
    CHECK(run_grapevine("train --config " + file).err.size() < 1000);
  }
  for (const char* option :
       {"train --config", "train --plan", "train --topology", "launch --nodes 2 --hosts"}) {
    check_refused(std::string(option) + " /dev/zero", 2, {"/dev/zero", "it is a device"});
    check_refused(std::string(option) + " " + scratch.path(), 2, {"it is a folder"});
  }
}
