// Data and networks of the user's own, from files on the command line.
#include <fmt/core.h>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// Two classes that a line tells apart, or a target that is a line's height.
std::string table(bool classes) {
  std::string text = classes ? "a,b,label\n" : "a,b,height\n";
  for (int k = 0; k < 200; ++k) {
    const double a = (k * 37 % 101) / 50.0 - 1, b = (k * 53 % 103) / 50.0 - 1;
    text += std::to_string(a) + "," + std::to_string(b) + "," +
            (classes ? std::to_string(a > b) : std::to_string(0.25 + a - 2 * b)) + "\n";
  }
  return text;
}

const std::string kShort = "--ranks 4 --gradients 2000 --lr 0.2 --batch 8 --no-save --quiet --json";

}  // namespace

TEST_CASE("a table is trained on: classes to their accuracy, numbers to their least squares") {
#ifndef GRAPEVINE_HAS_NETWORKS
  return skipped("own data: this build has no LibTorch");
#endif
  const Scratch scratch;
  const std::string classes = scratch.file("classes.csv", table(true));
  const auto sorted = json_of("train --model linear --dataset " + classes + " " + kShort);
  INFO(sorted.dump(1));
  CHECK(sorted["accuracy"] > 0.9);
  const std::string heights = scratch.file("heights.csv", table(false));
  const auto fitted =
      json_of("train --model linear --loss mse --dataset " + heights + " " + kShort);
  INFO(fitted.dump(1));
  CHECK(fitted["test_loss"] < 1e-3);
  CHECK(fitted["accuracy"].is_null());
  const auto counts = json_of("data --ranks 2 --partition label --dataset " + classes);
  CHECK(counts["counts"][0].size() == 2);
}

TEST_CASE("every command that trains on one's own data says target, inputs and task in a line") {
#ifndef GRAPEVINE_HAS_NETWORKS
  return skipped("own data: this build has no LibTorch");
#endif
  const Scratch scratch;
  std::string signs = "a,b,label\n", heights = "a,b,height\n";
  for (int k = 0; k < 60; ++k) {
    signs += fmt::format("{},{},{}\n", k % 7, k % 5, k % 2 ? "-1" : "1");
    heights += fmt::format("{},{},{}.5\n", k % 7, k % 5, k);
  }
  const std::string a = scratch.file("signs.csv", signs), b = scratch.file("h.csv", heights);
  const std::string job = " --model linear --gradients 40 --ranks 2 --batch 4 --no-save --dataset ";
  for (const std::string command :
       {"train", "simulate --objective network", "node", "launch --nodes 2"}) {
    INFO(command);
    const bool saves = command.starts_with("simulate");
    const std::string options =
        saves ? " --model linear --until 2 --ranks 2 --batch 4 --dataset " : job;
    CHECK_THAT(run_grapevine(command + options + a).err,
               Catch::Contains("linear (6 parameters) on 54 + 6 samples of [2], 2 classes; target "
                               "\"label\", inputs \"a\", \"b\", every tenth sample for the test; "
                               "the classes are \"-1\", \"1\""));
    CHECK_THAT(run_grapevine(command + options + b).err,
               Catch::Contains("54 + 6 samples of [2], 1 number to predict; target "
                               "\"height\", inputs \"a\", \"b\", every tenth"));
  }
}

TEST_CASE("data shows the labels of a set that is smaller than the usual batch") {
#ifndef GRAPEVINE_HAS_NETWORKS
  return skipped("own data: this build has no LibTorch");
#endif
  const Scratch scratch;
  std::string signs = "a,b,label\n";
  for (int k = 0; k < 12; ++k)
    signs += fmt::format("{},{},{}\n", k, k % 5, k % 2 ? "-1" : "1");
  const Ran ran = run_grapevine("data --ranks 2 --dataset " + scratch.file("signs.csv", signs));
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK_THAT(ran.out, Catch::Contains("over 2 ranks"));
}

TEST_CASE("files of one's own that cannot be are refused in a line") {
#ifndef GRAPEVINE_HAS_NETWORKS
  return skipped("own data: this build has no LibTorch");
#endif
  const Scratch scratch;
  const std::string good = scratch.file("good.csv", table(true));
  const std::string train = "train --no-save --model linear --dataset ";
  check_refused(train + scratch.path("nowhere.npz"), 2, {"nowhere.npz"});
  check_refused(train + scratch.file("cut.npz", std::string("PK\x03\x04 and no more")), 2,
                {"cut.npz", "cut or damaged"});
  check_refused(train + scratch.file("bad.csv", std::string("a,b\none,1\n")), 2,
                {"bad.csv, line 2", "column \"a\" has \"one\"", "accepted: a number"});
  check_refused(train + scratch.file("bad.safetensors", std::string("12345678")), 2,
                {"bad.safetensors", "cut"});
  check_refused(train + scratch.file("heights.csv", table(false)) + " --loss cross_entropy", 2,
                {"heights.csv: targets has ", "accepted: one whole number a sample"});
  check_refused(train + good + " --loss hinge", 2, {"loss", "hinge", "accepted"});
  check_refused("train --no-save --dataset " + good, 2, {"cnn-small", "rows of features"});
  check_refused("train --no-save --dataset " + good + " --model " + scratch.path("no.pt"), 2,
                {"no.pt"});
  check_refused("train --no-save --dataset " + good + " --model " +
                    scratch.file("bad.pt", std::string("no script")),
                2, {"the network cannot be made"});
  check_refused("data --ranks 2 --dataset " + scratch.path("heights.csv"), 2, {"not classes"});
}
