#include "actors/compute/device_compute.hpp"

#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>

#include "kernels/base/mutex.hpp"

namespace grapevine {

/// A thread and its tasks. The thread shares their ownership, so that it may be detached.
class DeviceCompute::Line {
 public:
  Line() : own_(std::make_shared<Own>()), thread_([own = own_] { own->work(); }) {}
  ~Line() { end(false); }

  void put(Task task) {
    {
      const Lock lock(own_->mutex);
      if (own_->stopping) return;
      own_->tasks.push_back(std::move(task));
    }
    own_->changed.notify_all();
  }

  /// Drops the tasks that have not begun, and waits for the present one. With `may_stand` that one
  /// may never end: then it waits only for a while.
  void end(bool may_stand) {
    if (!thread_.joinable()) return;
    constexpr std::chrono::seconds kPatience{2};
    Lock lock(own_->mutex);
    own_->stopping = true;
    own_->tasks.clear();
    own_->changed.notify_all();
    const bool ended =
        !may_stand || own_->changed.wait_for(
                          lock, kPatience, [&]() GV_REQUIRES(own_->mutex) { return own_->ended; });
    lock.unlock();
    ended ? thread_.join() : thread_.detach();
  }

 private:
  struct Own {
    Mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks GV_GUARDED_BY(mutex);
    bool stopping GV_GUARDED_BY(mutex) = false, ended GV_GUARDED_BY(mutex) = false;

    void work() {
      Lock lock(mutex);
      for (;;) {
        changed.wait(lock, [&]() GV_REQUIRES(mutex) { return stopping || !tasks.empty(); });
        if (stopping) break;
        Task task = std::move(tasks.front());
        tasks.pop_front();
        lock.unlock();
        task();
        task = {};
        lock.lock();
      }
      ended = true;
      changed.notify_all();
    }
  };

  const std::shared_ptr<Own> own_;
  std::thread thread_;
};

DeviceCompute::DeviceCompute(RunClock clock, std::shared_ptr<Objective> objective,
                             std::shared_ptr<DeviceShare> device)
    : clock_(clock), objective_(std::move(objective)), device_(std::move(device)) {
  for (size_t lane = 0; lane < device_->lanes().size(); ++lane)
    idle_.push_back(lane);
  for (size_t line = 0; line < device_->lanes().size() + 2; ++line)
    lines_.push_back(std::make_unique<Line>());
}

DeviceCompute::~DeviceCompute() { stop(); }

void DeviceCompute::stop() {
  for (const std::unique_ptr<Line>& line : lines_)
    line->end(device_->is_lost());
}

void DeviceCompute::post(std::function<void(int)> task) {
  const size_t number = device_->lanes().size();
  lines_[number]->put([task = std::move(task), number] { task(static_cast<int>(number)); });
}

void DeviceCompute::help(std::function<void()> task) { lines_.back()->put(std::move(task)); }

void DeviceCompute::submit(GradientJob job) {
  to_owner_([self = shared_from_this(), job = std::move(job)]() mutable {
    self->waiting_.push_back(std::move(job));
    self->begin_waiting();
  });
}

// On a lost device nothing is started; its owner reports the loss. If no slot is free, a job waits
// for the next answer.
void DeviceCompute::begin_waiting() {
  while (!waiting_.empty() && !idle_.empty()) {
    const size_t lane = idle_.back();
    idle_.pop_back();
    const auto gradient =
        std::make_shared<LaneGradient>(std::move(waiting_.front()), device_->lanes()[lane]);
    waiting_.pop_front();
    if (!gradient->begin(*device_)) {
      waiting_.push_front(gradient->give_back());
      idle_.push_back(lane);
      return;
    }
    lines_[lane]->put([device = device_, objective = objective_, to_owner = to_owner_,
                       me = weak_from_this(), lane, gradient, begun_s = clock_.now()] {
      if (!gradient->queue(*device, objective, static_cast<int>(lane))) return;
      to_owner([me, lane, gradient, begun_s] {
        if (const auto self = me.lock()) self->end(lane, gradient, begun_s);
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
    clock_.send_at(begun_s + answer.seconds, job.answer_to, std::move(answer));
  } else {
    caf::anon_send(job.answer_to, std::move(answer));
  }
  idle_.push_back(lane);
  begin_waiting();
}

}  // namespace grapevine
