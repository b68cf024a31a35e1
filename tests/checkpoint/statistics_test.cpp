// Running statistics of a network's norms, which are no parameters: saved, and gone on with.
#include <torch/torch.h>

#include <filesystem>
#include <grapevine/checkpoint.hpp>
#include <map>

#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "models/network/torch_objective.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

using namespace grapevine;
using grapevine::test::Scratch;

namespace {

using Floats = std::vector<float>;

struct Normed : torch::nn::Module {
  torch::nn::Linear in{4, 4}, out{4, 2};
  torch::nn::BatchNorm1d norm{4};
  Normed() {
    register_module("in", in), register_module("norm", norm), register_module("out", out);
  }
  at::Tensor forward(const at::Tensor& x) { return out(norm(in(x))); }
};

std::shared_ptr<Objective> make_normed(int ranks) {
  at::manual_seed(3);
  TorchTask task;
  task.make = [] { return network_of(std::make_shared<Normed>()); };
  task.train = TorchData::of(torch::randn({40, 4}) + 3, torch::randint(2, {40}));
  task.test = TorchData::of(torch::randn({12, 4}) + 3, torch::randint(2, {12}));
  ObjectiveSpec spec;
  spec.ranks = ranks;
  spec.batch = 5;
  auto made = make_torch_objective(spec, std::move(task));
  REQUIRE(made);
  return std::move(*made);
}

Floats statistics_of(const Objective& objective, int rank) {
  Floats out(objective.statistics().size());
  objective.read_statistics(rank, {out.data(), out.size(), DType::f32});
  return out;
}

/// Another objective, and what it has as a rank's statistics once it was told to go on with some.
class Heard final : public Objective {
 public:
  explicit Heard(std::shared_ptr<Objective> of) : of_(std::move(of)) {}

  void set_statistics(int rank, uint64_t gradients, ConstVec now) override {
    of_->set_statistics(rank, gradients, now);
    begun_with[rank] = statistics_of(*of_, rank);
  }
  std::map<int, Floats> begun_with;

  const ParameterLayout& layout() const override { return of_->layout(); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    return of_->gradient(thread, rank, index, x, g);
  }
  const ParameterLayout& statistics() const override { return of_->statistics(); }
  void read_statistics(int rank, Vec out) const override { of_->read_statistics(rank, out); }
  void set_average_statistics(ConstVec average) override { of_->set_average_statistics(average); }
  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    return of_->evaluate(thread, rank, x);
  }
  uint64_t gradients_per_pass(int rank) const override { return of_->gradients_per_pass(rank); }
  Status go_on_in_data(const std::vector<DataCut>& cuts) override {
    return of_->go_on_in_data(cuts);
  }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string& folder, ConstVec x) override {
    return of_->save_model(folder, x);
  }

 private:
  std::shared_ptr<Objective> of_;
};

Settings steps_of(int ranks) {
  Settings settings;
  settings.clock = Clock::simulated;
  settings.ranks = ranks;
  settings.topology = "complete";
  settings.threads = 1;
  settings.gradients = 50 * static_cast<uint64_t>(ranks);
  settings.objective.objective = "quadratic";  // is not asked: the objective is handed over
  settings.objective.batch = 5;
  return settings;
}

}  // namespace

TEST_CASE("running statistics come back bit for bit, and the rank that has them ends as it would") {
  const Scratch scratch;
  const Settings settings = steps_of(1);
  const auto objective = make_normed(1);
  const Floats fresh = statistics_of(*objective, 0);
  std::map<std::string, Floats> at;
  Saving saving{.out = scratch.path("run"), .checkpoint_every = "10steps"};
  saving.on_checkpoint = [&](const std::string& path) { at[path] = statistics_of(*objective, 0); };
  const auto whole = run_saved(settings, objective, saving);
  REQUIRE(whole);
  int resumed = 0;
  for (const auto& [path, statistics] : at) {
    if (!std::filesystem::exists(path)) continue;  // the last three are kept
    INFO(path);
    CHECK(statistics != fresh);
    const auto heard = std::make_shared<Heard>(make_normed(1));
    const std::string other = scratch.path("other-" + std::to_string(resumed++));
    const auto went_on = run_saved(settings, heard, {.out = other, .resume = path});
    if (!went_on) FAIL(went_on.error().message);
    CHECK(heard->begun_with[0] == statistics);
    CHECK(parameter_hash(went_on->outcome) == parameter_hash(whole->outcome));
  }
  CHECK(resumed == 3);
}

TEST_CASE("a warm start from a checkpoint begins with the mean of its ranks' running statistics") {
  const Scratch scratch;
  REQUIRE(run_saved(steps_of(2), make_normed(2),
                    {.out = scratch.path("run"), .checkpoint_every = "10steps"}));
  const auto checkpoint = load_checkpoint(real_disk(), scratch.path("run"));
  REQUIRE(checkpoint);
  Floats mean(8);
  for (size_t k = 0; k < mean.size(); ++k) {
    double sum = 0;
    for (const RankRecordPtr& rank : checkpoint->ranks)
      sum += static_cast<double>(rank->statistics.vec().as<float>()[k]);
    mean[k] = static_cast<float>(sum / 2);
  }
  const auto other = make_normed(3);
  CHECK(statistics_of(*other, 2) != mean);
  const auto begun = warm_start(scratch.path("run"), 3, other);
  REQUIRE(begun);
  for (int rank = 0; rank < 3; ++rank)
    CHECK(statistics_of(**begun, rank) == mean);
}
