#include "actors/compute/host_compute.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include "actors/compute/lane_gradient.hpp"
#include "kernels/base/cores.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

namespace {

constexpr int kYields = 10;  // the nice value of a contended lane: a tenth of a helper's share

constexpr size_t kGradients = 1 << 16;  // being computed or waiting to be applied, at one time

}  // namespace

ThreadCompute::ThreadCompute(RunClock clock, caf::actor_system& system,
                             std::shared_ptr<Objective> objective, int threads)
    : clock_(clock),
      system_(system),
      objective_(std::move(objective)),
      gradients_(objective_->layout().size(), objective_->layout().dtype(), kGradients) {
  try {
    for (int thread = 0; thread < threads; ++thread)
      threads_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error& refused) {
    const size_t made = threads_.size();
    stop();
    throw std::system_error(
        refused.code(), fmt::format("threads is {}, of which the system gives {}", threads, made));
  }
}

void ThreadCompute::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  ready_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
  threads_.clear();
}

void ThreadCompute::post(std::function<void(int)> task) {
  put([task = std::move(task)](Lane& lane) { task(lane.number); });
}

void ThreadCompute::put(Task task) {
  {
    const Lock lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
}

void ThreadCompute::submit(GradientJob job) {
  auto shared = std::make_shared<GradientJob>(std::move(job));
  put([this, shared](Lane& lane) { run(lane, *shared); });
}

// The thread that computed a gradient runs the actors that its answer makes ready, and then those
// that a timer makes ready: the worker takes the answer, the state takes the step, the worker asks
// for the next gradient, neighbours exchange. Waking another thread would cost more than all of
// these, unless the cores are contended.
void ThreadCompute::work(int number) {
  Lane lane{number, WallScheduler::Visitor(system_), {}};
  for (;;) {
    Task task;
    {
      Lock lock(mutex_);
      while (!stopping_ && tasks_.empty()) {
        lane.visitor.set_computing(false);
        ready_.wait(lock);
      }
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    lane.visitor.set_computing(!lane.cores.contended());  // other threads then serve the timers
    task(lane);
    if (!lane.cores.contended()) {
      lane.visitor.serve();
    } else if (!std::exchange(lane.yields, true)) {
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kYields);
    }
  }
}

void ThreadCompute::run(Lane& lane, GradientJob& job) {
  Computed answer{job.index, 0, 0, gradients_.take()};
  const double start = clock_.now(), cpu_start_s = thread_cpu_s();
  answer.loss = gradient_or_zero(*objective_, lane.number, job.rank, job.index, job.x.vec(),
                                 answer.g.writable());
  const double took = clock_.now() - start;
  lane.cores.add(took, thread_cpu_s() - cpu_start_s);
  job.x = {};
  answer.seconds = took * job.slowness;
  if (job.slowness != 1)
    return clock_.send_at(start + answer.seconds, job.answer_to, std::move(answer));
  const auto to = caf::actor_cast<caf::strong_actor_ptr>(job.answer_to);
  auto message = caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(answer));
  if (lane.cores.contended()) {
    to->enqueue(std::move(message), nullptr);
  } else {
    lane.visitor.deliver(to, std::move(message));
  }
}

InlineCompute::InlineCompute(RunClock clock, std::shared_ptr<Objective> objective,
                             ComputeModel model, Log log, std::shared_ptr<DeviceShare> device)
    : clock_(clock),
      objective_(std::move(objective)),
      model_(model),
      log_(std::move(log)),
      device_(std::move(device)),
      gradients_(objective_->layout().size(), objective_->layout().dtype(), kGradients) {}

void InlineCompute::submit(GradientJob job) {
  if (device_) return submit_to_lane(std::move(job));
  Lease g = gradients_.take();
  const double loss =
      gradient_or_zero(*objective_, 0, job.rank, job.index, job.x.vec(), g.writable());
  answer(job, clock_.now(), loss, std::move(g));
}

void InlineCompute::answer(const GradientJob& job, double begun_s, double loss, Lease g) {
  log_(std::bit_cast<uint64_t>(loss) ^ static_cast<uint64_t>(job.rank) << 48 ^ job.index);
  Computed answer{job.index, loss, model_.gradient_s * job.slowness, std::move(g)};
  if (job.instant) return caf::anon_send(job.answer_to, std::move(answer));
  if (model_.spread > 0) {
    Random random(model_.seed, static_cast<uint32_t>(job.rank), Purpose::gradient_duration,
                  job.index);
    answer.seconds *= std::exp(model_.spread * random.normal() - model_.spread * model_.spread / 2);
  }
  const double at = begun_s + answer.seconds;
  clock_.send_at(at, job.answer_to, std::move(answer));
}

void InlineCompute::submit_to_lane(GradientJob job) {
  const Stream lane = device_->lanes()[static_cast<size_t>(job.rank) % device_->lanes().size()];
  const auto gradient = std::make_shared<LaneGradient>(std::move(job), lane);
  const bool queued = gradient->begin(*device_) && gradient->queue(*device_, objective_, 0) &&
                      gradient->end(*device_);
  if (!queued) return;  // the device is lost
  auto then = [me = weak_from_this(), gradient, begun_s = clock_.now()] {
    const auto self = me.lock();
    if (!self || !self->device_) return;  // the run has ended, and its remaining work is dropped
    Computed seen = gradient->see();
    const GradientJob& job = gradient->job();
    if (seen.no_memory) return caf::anon_send(job.answer_to, std::move(seen));
    self->answer(job, begun_s, seen.loss, std::move(seen.g));
  };
  Fences& fences = device_->fences();
  if (fences.query(gradient->computed()) == Fate::ok) return then();
  fences.when(gradient->computed(), [then = std::move(then)](Fate fate) {
    if (fate == Fate::ok) then();
  });
  to_owner_([] {});  // the owner now checks whether it comes
}

}  // namespace grapevine
