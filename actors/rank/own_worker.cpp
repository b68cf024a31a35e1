#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

#include "actors/rank/worker.hpp"
#include "actors/settings/settings.hpp"
#include "kernels/memory/snapshot_pool.hpp"

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::GradientJob)

namespace grapevine {

namespace {

constexpr size_t kGradients = 1 << 16;  // that wait to be applied, at one time

// Computes the gradients of one worker, one at a time.
class OwnGradients {
 public:
  OwnGradients(const RunClock& clock, const Settings& settings, std::unique_ptr<OwnWorker> own)
      : clock_(clock),
        modelled_s_(settings.clock == Clock::simulated ? settings.gradient_s : 0),
        own_(std::move(own)) {}

  void compute(GradientJob job) {
    try {
      answer(job);
    } catch (const std::exception& e) {
      fail(job.answer_to, e.what());
    } catch (...) {
      fail(job.answer_to, "the exception is not a std::exception");
    }
  }

 private:
  void answer(GradientJob& job) {
    if (job.x.on_device())
      throw std::invalid_argument("an own worker computes in the host's memory: device is cpu");
    const ConstVec x = job.x.vec();
    if (!pool_) pool_.emplace(x.size, x.dtype, kGradients);
    const double begun_s = clock_.now();
    Computed answer{job.index, 0, 0, pool_->take()};
    answer.loss = own_->gradient(job.index, x, answer.g.writable());
    job.x = {};
    answer.seconds = (modelled_s_ > 0 ? modelled(job.index) : clock_.now() - begun_s);
    answer.seconds *= job.slowness;
    if (job.instant || (modelled_s_ == 0 && job.slowness == 1))
      return caf::anon_send(job.answer_to, std::move(answer));
    clock_.send_at(begun_s + answer.seconds, job.answer_to, std::move(answer));
  }

  double modelled(uint64_t index) {
    const double own_s = own_->seconds(index);
    return own_s > 0 ? own_s : modelled_s_;
  }

  static void fail(const WorkerActor& worker, const std::string& why) {
    const auto to = caf::actor_cast<caf::strong_actor_ptr>(worker);
    caf::exit_msg exit{worker.address(), caf::make_error(caf::sec::runtime_error, why)};
    to->enqueue(nullptr, caf::make_message_id(), caf::make_message(std::move(exit)), nullptr);
  }

  const RunClock clock_;
  const double modelled_s_;  // 0: the wall clock, which needs no model
  const std::unique_ptr<OwnWorker> own_;
  std::optional<SnapshotPool> pool_;
};

using CalculatorActor = caf::typed_actor<Takes<GradientJob>>;

// Under the wall clock, a thread that computes.
class Calculator final : public CalculatorActor::base {
 public:
  Calculator(caf::actor_config& config, std::shared_ptr<OwnGradients> gradients)
      : CalculatorActor::base(config), gradients_(std::move(gradients)) {}

 protected:
  behavior_type make_behavior() override {
    return {[this](GradientJob& job) { gradients_->compute(std::move(job)); }};
  }
  void on_exit() override { gradients_.reset(); }

 private:
  std::shared_ptr<OwnGradients> gradients_;
};

// The library's worker uses it in place of the run's Compute.
class OwnCompute final : public Compute {
 public:
  OwnCompute(std::shared_ptr<OwnGradients> gradients, CalculatorActor calculator,
             std::shared_ptr<Compute> of_run)
      : gradients_(std::move(gradients)),
        calculator_(std::move(calculator)),
        of_run_(std::move(of_run)) {}
  ~OwnCompute() override { stop(); }

  void submit(GradientJob job) override {
    if (calculator_) return caf::anon_send(calculator_, std::move(job));
    gradients_->compute(std::move(job));
  }
  void post(std::function<void(int thread)> task) override { of_run_->post(std::move(task)); }
  void stop() override {
    if (calculator_) caf::anon_send_exit(calculator_, caf::exit_reason::kill);
  }

 private:
  const std::shared_ptr<OwnGradients> gradients_;
  const CalculatorActor calculator_;  // null: the virtual clock
  const std::shared_ptr<Compute> of_run_;
};

}  // namespace

WorkerActor spawn_own_worker(caf::actor_system& system, WorkerDependencies deps,
                             std::unique_ptr<OwnWorker> own) {
  if (own == nullptr) throw std::invalid_argument("there is no worker (a null pointer)");
  auto gradients = std::make_shared<OwnGradients>(deps.clock, *deps.settings, std::move(own));
  CalculatorActor calculator;
  if (deps.settings->clock == Clock::wall)
    calculator = system.spawn<Calculator, caf::detached>(gradients);
  deps.compute = std::make_shared<OwnCompute>(std::move(gradients), calculator, deps.compute);
  return spawn_worker(system, std::move(deps));
}

}  // namespace grapevine
