// Mistakes in a job file: one line with file and line, before any run starts.
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine::test;

namespace {

const std::string kShared =
    "objective = \"quadratic\"\n"
    "ranks = 8\n"
    "until = 50\n";
const std::string kMethod = "[[method]]\nname = \"d_psgd\"\n";

// Refused, and nothing was made: no run had started.
void check_job(const std::string& text, const std::vector<std::string>& words) {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", text);
  check_refused("compare " + job, 2, words);
  CHECK(!exists(scratch.path("job.results")));
}

}  // namespace

TEST_CASE("an unknown key of a job is refused with its line and the nearest name") {
  check_job(kShared + "zetta2 = 1\n" + kMethod, {"job.toml:4: ", "zetta2", "mean zeta2, "});
  check_job(kShared + kMethod + "labl = \"x\"\n", {"job.toml:6: ", "labl", "mean label"});
  check_job(kShared + kMethod + "seed = 3\n", {"job.toml:6: ", "unknown key seed"});
  check_job("target_acuracy = 0.8\n" + kMethod, {"job.toml:1: ", "mean target_accuracy, "});
  check_job("json = true\n" + kMethod, {"job.toml:1: ", "unknown key json"});
}

TEST_CASE("an empty list, a value twice and a value of the wrong type are refused") {
  check_job(kShared + "seeds = []\n" + kMethod, {"job.toml:4: ", "seeds is an empty list"});
  check_job(kShared + "partitions = []\n" + kMethod, {"partitions is an empty list"});
  check_job(kShared + "seeds = [1, 2, 1]\n" + kMethod, {"job.toml:4: ", "seeds has 1 twice"});
  check_job(kShared + "seeds = [1, \"two\"]\n" + kMethod, {"\"two\"", "a whole number"});
  check_job(kShared + "seeds = 0\n" + kMethod, {"seeds is 0", "a list, or a number from 1"});
  check_job(kShared + "seeds = -1\n" + kMethod, {"seeds is -1", "a list, or a number from 1"});
  check_job(kShared + "seed = [1, 2]\nseeds = 4\n" + kMethod, {"job.toml:4: ", "one list"});
  check_job(kShared + "lr = [0.1, \"x\"]\n" + kMethod, {"job.toml:4: ", "lr is \"x\"", "a number"});
  check_job(kShared + kMethod + "label = 3\n", {"job.toml:6: ", "label is 3", "a line of text"});
}

TEST_CASE("a job without a method, and methods that cannot be told apart, are refused") {
  check_job(kShared, {"job.toml", "names no method", "[[method]]"});
  check_job(kShared + "[[method]]\nlr = 0.1\n", {"job.toml:4: ", "without a name"});
  check_job(kShared + kMethod + kMethod, {"job.toml:6: ", "label \"d_psgd\" twice"});
  check_job("methods = [\"d2\"]\n[[fault]]\n" + kMethod, {"job.toml:2: ", "unknown key fault"});
}

TEST_CASE("what the run of any cell would refuse is refused before the first one") {
  const std::string tree = "[[method]]\nname = \"relaysgd\"\ntopology = \"ring\"\n";
  check_job(kShared + kMethod + tree, {"job.toml:6: ", "relaysgd", "ring"});
  check_job(kShared + "topologies = [\"chain\", \"ring\"]\n[[method]]\nname = \"relaysgd\"\n",
            {"job.toml:5: ", "relaysgd, topology ring"});
  check_job(kShared + "[[method]]\nname = \"magic\"\n", {"magic", "d_psgd", "relaysgd"});
  check_job(kShared + kMethod + "momentum = 2\n", {"d_psgd", "momentum is 2"});
  check_job(kShared + "pairing = \"fre\"\n" + kMethod, {"job.toml:4: ", "\"fre\"", "poisson"});
  check_job(kShared + "plan = \"nowhere.toml\"\n" + kMethod, {"nowhere.toml"});
}

TEST_CASE("a target of another objective and two objectives in one job are refused") {
  check_job(kShared + "target_accuracy = 0.9\n" + kMethod,
            {"job.toml:4: ", "target_accuracy", "\"quadratic\"", "target_suboptimality"});
  check_job("target_suboptimality = 0\n" + kMethod, {"job.toml:1: ", "is 0", "above 0"});
  check_job("objective = [\"quadratic\", \"scalar\"]\nuntil = 9\n" + kMethod,
            {"\"quadratic\" and \"scalar\"", "one objective"});
}

TEST_CASE("no job, a job that is not there and a file that is no TOML are refused") {
  const Scratch scratch;
  check_refused("compare", 2, {"compare FILE"});
  check_refused("compare " + scratch.path("none.toml"), 2, {"none.toml", "accepted: a TOML file"});
  check_job("lr = = 1\n", {"job.toml:1: "});
  const std::string job = scratch.file("job.toml", kShared + kMethod);
  check_refused("compare --threads -1 " + job, 2, {"threads is -1"});
  check_refused("compare --lr 1 " + job, 2, {"--lr", "belongs to: train simulate"});
}
