#include "actors/device_compute.hpp"

#include <utility>

#include "kernels/check.hpp"

namespace grapevine {

DeviceCompute::DeviceCompute(RunClock clock, caf::actor_system& system,
                             std::shared_ptr<Objective> objective,
                             std::shared_ptr<DeviceShare> device)
    : clock_(clock), system_(system), objective_(std::move(objective)), device_(std::move(device)) {
  for (size_t lane = 0; lane < device_->lanes().size(); ++lane)
    idle_.push_back(lane);
  for (size_t line = 0; line <= device_->lanes().size(); ++line)
    lines_.push_back(std::make_unique<Line>());
  for (const std::unique_ptr<Line>& line : lines_)
    line->thread = std::thread([this, &own = *line] { work(own); });
}

void DeviceCompute::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    for (const std::unique_ptr<Line>& line : lines_)
      line->tasks.clear();
  }
  for (const std::unique_ptr<Line>& line : lines_) {
    line->ready.notify_one();
    line->thread.join();
  }
}

void DeviceCompute::put(size_t line, Task task) {
  Line& own = *lines_[line];
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    own.tasks.push_back(std::move(task));
  }
  own.ready.notify_one();
}

void DeviceCompute::work(Line& own) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      own.ready.wait(lock, [&] { return stopping_ || !own.tasks.empty(); });
      if (stopping_) return;
      task = std::move(own.tasks.front());
      own.tasks.pop_front();
    }
    task();
  }
}

void DeviceCompute::post(std::function<void(int)> task) {
  const size_t last = lines_.size() - 1;
  put(last, [task = std::move(task), last] { task(static_cast<int>(last)); });
}

void DeviceCompute::submit(GradientJob job) {
  to_owner_([self = shared_from_this(), job = std::move(job)]() mutable {
    self->waiting_.push_back(std::move(job));
    self->begin_waiting();
  });
}

// On a device that is lost nothing begins any more; its owner tells.
void DeviceCompute::begin_waiting() {
  while (!waiting_.empty() && !idle_.empty()) {
    const size_t lane = idle_.back();
    idle_.pop_back();
    const auto gradient =
        std::make_shared<LaneGradient>(std::move(waiting_.front()), device_->lanes()[lane]);
    waiting_.pop_front();
    if (!gradient->begin(*device_)) return;
    put(lane, [this, lane, gradient, begun_s = clock_.now()] {
      if (!gradient->queue(*device_, objective_, static_cast<int>(lane))) return;
      to_owner_([self = shared_from_this(), lane, gradient, begun_s] {
        self->end(lane, gradient, begun_s);
      });
    });
  }
}

void DeviceCompute::end(size_t lane, const std::shared_ptr<LaneGradient>& gradient,
                        double begun_s) {
  if (!gradient->end(*device_)) return;
  device_->fences().when(gradient->computed(), [self = shared_from_this(), lane, gradient,
                                                begun_s](Fate fate) {
    if (fate != Fate::ok) return;
    self->to_owner_([self, lane, gradient, begun_s] { self->answer(lane, *gradient, begun_s); });
  });
}

void DeviceCompute::answer(size_t lane, LaneGradient& gradient, double begun_s) {
  const GradientJob& job = gradient.job();
  const double took_s = clock_.now() - begun_s;
  Computed answer = gradient.see();
  answer.seconds = took_s * job.slowness;
  if (job.slowness != 1) {
    answer_at(system_, clock_.instant(begun_s + answer.seconds), job.answer_to, std::move(answer));
  } else {
    caf::anon_send(job.answer_to, std::move(answer));
  }
  idle_.push_back(lane);
  begin_waiting();
}

}  // namespace grapevine
