#include "app/checkpoint/checkpoint_thread.hpp"

#include <fmt/core.h>

#include <utility>

#include "actors/settings/alarm.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "app/system/words.hpp"
#include "kernels/base/caught.hpp"
#include "kernels/base/check.hpp"

namespace grapevine {

namespace {

std::string no_checkpoint(const Error& error) {
  return fmt::format("{}: {}", kNoCheckpoint, error.message);
}

}  // namespace

CheckpointThread::CheckpointThread(const std::string& run_folder, RunIdentity run, bool threaded,
                                   std::function<void(const std::string&)> say, KeptOf kept)
    : say_(std::move(say)),
      kept_(std::move(kept)),
      writer_(run_folder + "/" + kCheckpointsFolder,
              checkpoints_in(real_disk(), run_folder + "/" + kCheckpointsFolder), std::move(run)) {
  if (threaded) thread_ = std::thread([this] { work(); });
}

CheckpointThread::~CheckpointThread() {
  {
    const Lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void CheckpointThread::set_epoch(uint64_t epoch, const std::string& topology) {
  const Lock lock(mutex_);
  epoch_ = epoch;
  topology_ = topology;
}

void CheckpointThread::set_score(const Score& score) {
  const Lock lock(mutex_);
  score_ = score;
}

void CheckpointThread::write(CheckpointPart part, CheckpointOrders::Done done) {
  if (!thread_.joinable()) return carry({std::move(part), std::move(done)});
  const Lock lock(mutex_);
  if (stopped_) return;
  GV_CHECK(!task_.has_value());
  task_.emplace(Task{std::move(part), std::move(done)});
  changed_.notify_all();
}

Status CheckpointThread::newest() const {
  const Lock lock(mutex_);
  return newest_;
}

void CheckpointThread::stop() {
  Lock lock(mutex_);
  stopped_ = true;
  task_.reset();
  changed_.wait(lock, [this]() GV_REQUIRES(mutex_) { return !busy_; });
  if (writer_.is_open()) static_cast<void>(carry_out(writer_.abandon()));  // the run ended first
}

void CheckpointThread::work() {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() GV_REQUIRES(mutex_) { return ends_ || task_.has_value(); });
    if (ends_) return;
    Task task = std::move(*task_);
    task_.reset();
    busy_ = true;
    lock.unlock();
    carry(std::move(task));
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void CheckpointThread::carry(Task task) {
  const bool is_end = task.part.rank == nullptr;
  const Status happened = caught([&] { return is_end ? finish() : begin_and_write(task.part); });
  if (!happened || is_end) {
    const Lock lock(mutex_);
    newest_ = happened ? happened : world_error(no_checkpoint(happened.error()));
  }
  if (!happened) return fail(happened.error(), task.done);
  task.part.rank = nullptr;  // freed before the next one is made
  task.done(true, is_end ? kCheckpointAt + writer_.path() : "");
}

Status CheckpointThread::begin_and_write(const CheckpointPart& part) {
  if (!writer_.is_open())
    if (Status begun = carry_out(writer_.begin(part.gradients, part.trained_s)); !begun)
      return begun;
  return carry_out(writer_.rank(part.rank, kept_ ? kept_(part.rank->rank) : KeptBlob()));
}

Status CheckpointThread::finish() {
  GV_CHECK(writer_.is_open());  // the last part follows a rank
  Lock lock(mutex_);
  const auto epoch = epoch_;
  const std::string topology = topology_;
  const std::optional<Score> score = score_;
  lock.unlock();
  if (Status whole = carry_out(writer_.commit(epoch, topology, utc_now(), score)); !whole)
    return whole;
  if (Status tidied = carry_out(writer_.tidy()); !tidied) say_(kAlarm + tidied.error().message);
  return Done{};
}

void CheckpointThread::fail(const Error& error, const CheckpointOrders::Done& done) {
  if (writer_.is_open()) static_cast<void>(carry_out(writer_.abandon()));
  done(false, no_checkpoint(error));
}

}  // namespace grapevine
