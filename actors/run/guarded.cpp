#include "actors/run/guarded.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "actors/rank/worker.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

namespace {

void clear(Vec v) { std::memset(v.data, 0, v.bytes()); }

class GuardedObjective final : public Objective {
 public:
  GuardedObjective(std::shared_ptr<Objective> objective, std::shared_ptr<Thrown> thrown)
      : objective_(std::move(objective)),
        thrown_(std::move(thrown)),
        layout_(objective_->layout()),
        statistics_(objective_->statistics()),
        has_gradients_(objective_->has_gradients()),
        has_workers_(objective_->has_workers()),
        starts_alike_(objective_->starts_alike()),
        description_(objective_->description()) {}

  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics() const override { return statistics_; }
  bool has_gradients() const override { return has_gradients_; }
  bool has_workers() const override { return has_workers_; }
  std::string description() const override { return description_; }

  void initial_point(int rank, Vec x) const override {
    const auto work = [&] { objective_->initial_point(rank, x); };
    if (!done("the initial point of rank " + std::to_string(rank), work)) clear(x);
  }

  bool starts_alike() const override { return starts_alike_; }

  // The text is only made after an exception: a gradient may take a microsecond.
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    std::string text = "the exception is not a std::exception";
    try {
      return objective_->gradient(thread, rank, index, x, g);
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
    }
    fail_gradient(rank, index, text);
    clear(g);
    return std::numeric_limits<double>::quiet_NaN();
  }

  Status use_gpu(int number) override {
    return guarded(*thrown_, "moving to a GPU", Status(Done{}),
                   [&] { return objective_->use_gpu(number); });
  }

  void use_host() override {
    done("moving back to the CPU", [&] { objective_->use_host(); });
  }

  void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss) override {
    std::string text = "the exception is not a std::exception";
    try {
      return objective_->queue_gradient(thread, stream, rank, index, x, g, loss);
    } catch (const NoMemoryLeft&) {
      throw;
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
    }
    fail_gradient(rank, index, text);
    if (stream == nullptr) clear(g);
    *loss = std::numeric_limits<double>::quiet_NaN();
  }

  void gradient_came(int thread, int rank) override {
    done("the end of a gradient of rank " + std::to_string(rank),
         [&] { objective_->gradient_came(thread, rank); });
  }

  void lose_gpu() override {
    done("releasing a lost GPU", [&] { objective_->lose_gpu(); });
  }

  void read_statistics(int rank, Vec out) const override {
    const auto work = [&] { objective_->read_statistics(rank, out); };
    if (!done("the statistics of rank " + std::to_string(rank), work)) clear(out);
  }

  bool has_statistics(int rank) const override {
    return guarded(*thrown_, "whether rank " + std::to_string(rank) + " has statistics", false,
                   [&] { return objective_->has_statistics(rank); });
  }

  void read_for_mean(int rank, Vec out) const override {
    const auto work = [&] { objective_->read_for_mean(rank, out); };
    if (!done("the statistics of rank " + std::to_string(rank), work)) clear(out);
  }

  void set_statistics(int rank, uint64_t gradients, ConstVec now) override {
    done("taking the statistics of rank " + std::to_string(rank),
         [&] { objective_->set_statistics(rank, gradients, now); });
  }

  void set_average_statistics(ConstVec average) override {
    done("taking the average statistics", [&] { objective_->set_average_statistics(average); });
  }

  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return guarded(*thrown_, "the evaluation", Evaluation{kNone, kNone},
                   [&] { return objective_->evaluate(thread, rank, x); });
  }

  Evaluation validate(int thread, int rank, ConstVec x) override {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return guarded(*thrown_, "the validation", Evaluation{kNone, kNone},
                   [&] { return objective_->validate(thread, rank, x); });
  }

  uint64_t gradients_per_pass(int rank) const override {
    return guarded(*thrown_, "the length of a pass", uint64_t{0},
                   [&] { return objective_->gradients_per_pass(rank); });
  }

  Status go_on_in_data(const std::vector<DataCut>& cuts) override {
    return guarded(*thrown_, "continuing in the data", Status(Done{}),
                   [&] { return objective_->go_on_in_data(cuts); });
  }

  Status save_model(const std::string& directory, ConstVec x) override {
    return objective_->save_model(directory, x);  // no actor calls it
  }

 private:
  void fail_gradient(int rank, uint64_t index, const std::string& text) const {
    thrown_->keep("the gradient " + std::to_string(index) + " of rank " + std::to_string(rank),
                  text);
  }

  template <class Work>
  bool done(const std::string& where, Work&& work) const {
    return guarded(*thrown_, where, false, [&] { return work(), true; });
  }

  const std::shared_ptr<Objective> objective_;
  const std::shared_ptr<Thrown> thrown_;
  const ParameterLayout layout_, statistics_;
  const bool has_gradients_, has_workers_, starts_alike_;
  const std::string description_;
};

}  // namespace

void Thrown::keep(const std::string& where, const std::string& text) {
  std::string line = where + " failed: " + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  keep(world_error(std::move(line)));
}

void Thrown::keep(Error error) {
  bool is_first;
  {
    const Lock lock(mutex_);
    is_first = !first_;
    if (is_first) first_ = std::move(error);
    any_ = true;
  }
  if (is_first && tell_) tell_();
}

std::optional<Error> Thrown::first() const {
  const Lock lock(mutex_);
  return first_;
}

Result<std::shared_ptr<Objective>> guard(std::shared_ptr<Objective> objective,
                                         std::shared_ptr<Thrown> thrown) {
  if (objective == nullptr) return user_error("there is no objective (a null pointer)");
  const std::shared_ptr<Objective> made = guarded(
      *thrown, "the objective", std::shared_ptr<Objective>(), [&]() -> std::shared_ptr<Objective> {
        return std::make_shared<GuardedObjective>(objective, thrown);
      });
  if (made == nullptr) return *thrown->first();
  const ParameterLayout& layout = made->layout();
  if (layout.size() == 0) return user_error("the objective has no parameters, accepted: 1 or more");
  if (layout.dtype() == DType::bytes)
    return user_error("the objective's parameters are bytes, accepted: fp32 and fp64");
  return made;
}

namespace {

template <class... Values>
void guard(std::function<void(Values...)>& told, const char* name, std::shared_ptr<Thrown> thrown,
           std::shared_ptr<Mutex> turn) {
  if (!told) return;
  told = [told = std::move(told), where = std::string("the sink's ") + name,
          thrown = std::move(thrown), turn = std::move(turn)](Values... values) {
    const Lock lock(*turn);
    if (!thrown->any()) guarded(*thrown, where, false, [&] { return told(values...), true; });
  };
}

}  // namespace

void guard(RunHooks& hooks, std::shared_ptr<Thrown> thrown) {
  hooks.on_throw = [thrown](const std::string& where, const std::string& text) {
    thrown->keep(where, text);
  };
  const auto turn = std::make_shared<Mutex>();
  guard(hooks.sink.on_sample, "on_sample", thrown, turn);
  guard(hooks.sink.on_epoch, "on_epoch", thrown, turn);
  guard(hooks.sink.on_event, "on_event", thrown, turn);
  guard(hooks.sink.on_alarm, "on_alarm", thrown, turn);
  guard(hooks.on_ranks, "on_ranks", thrown, turn);
  guard(hooks.on_report, "on_report", thrown, turn);
  if (hooks.checkpoints.write) {
    hooks.checkpoints.write = [write = std::move(hooks.checkpoints.write), thrown](
                                  CheckpointPart part, CheckpointOrders::Done done) {
      if (!guarded(*thrown, "writing a checkpoint", false,
                   [&] { return write(std::move(part), done), true; }))
        done(false, kNoCheckpoint);
    };
  }
  if (!hooks.make_worker) return;
  hooks.make_worker = [make = std::move(hooks.make_worker), thrown](caf::actor_system& system,
                                                                    WorkerDependencies deps) {
    const std::string where = "the worker of rank " + std::to_string(deps.rank);
    return guarded(*thrown, where, SpawnedWorker(), [&] { return make(system, std::move(deps)); });
  };
}

}  // namespace grapevine
