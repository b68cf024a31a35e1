#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <grapevine/checkpoint.hpp>

#include "actors/run/guarded.hpp"
#include "app/checkpoint/checkpoint_thread.hpp"
#include "app/checkpoint/go_on.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "app/options/every.hpp"
#include "app/system/folder_lock.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

// Connects a run and its folder.
class Saver {
 public:
  explicit Saver(const Saving& saving) : saving_(saving) {}

  /// The final settings, objective and hooks. Exceptions of the objective are kept.
  Status begin(Settings&, int& first_rank, std::shared_ptr<Objective>&, RunHooks&);

  /// Exceptions of the user's functions that do not come from the run.
  std::optional<Error> thrown() const { return thrown_->first(); }

 private:
  Status open();
  Status go_on_with(Settings&, int& first_rank, Objective&, RunHooks&);
  void save(const Settings&, const Objective&, Every, RunHooks&);
  void say(const std::string& line) const;

  Saving saving_;
  std::optional<FolderLock> lock_;
  std::vector<DataCut> cuts_;
  uint64_t epoch_ = 0;
  uint32_t generation_ = 0;
  std::function<void(const std::string&)> on_event_;
  const std::shared_ptr<Thrown> thrown_ = std::make_shared<Thrown>();
  std::unique_ptr<CheckpointThread> thread_;
};

// The writing thread and the run call the function in turns.
template <class Value>
void take_turns(std::function<void(Value)>& told, const std::shared_ptr<Mutex>& turn) {
  if (!told) return;
  told = [told = std::move(told), turn](Value value) {
    const Lock lock(*turn);
    told(value);
  };
}

void Saver::say(const std::string& line) const {
  if (!on_event_) return;
  guarded(*thrown_, "the sink's on_event", false, [&] { return on_event_(line), true; });
}

Status Saver::begin(Settings& settings, int& first_rank, std::shared_ptr<Objective>& objective,
                    RunHooks& hooks) {
  const auto every = every_of("checkpoint_every", saving_.checkpoint_every);
  if (!every) return every.error();
  const auto turn = std::make_shared<Mutex>();
  take_turns(hooks.sink.on_sample, turn);
  take_turns(hooks.sink.on_epoch, turn);
  take_turns(hooks.sink.on_event, turn);
  take_turns(hooks.sink.on_alarm, turn);
  on_event_ = hooks.sink.on_event;
  return guarded(*thrown_, "beginning the run", Status(Done{}), [&]() -> Status {
    auto begun = warm_start(saving_.init, settings.ranks, objective);
    if (!begun) return begun.error();
    objective = std::move(*begun);
    if (Status opened = open(); !opened) return opened;
    if (Status on = go_on_with(settings, first_rank, *objective, hooks); !on) return on;
    if (!saving_.out.empty()) save(settings, *objective, *every, hooks);
    return Done{};
  });
}

Status Saver::open() {
  constexpr double kPatience_s = 2;  // for a life of the run that is about to end
  std::string& out = saving_.out;
  const std::string run = saving_.resume.empty() ? std::string() : run_of(saving_.resume);
  if (out.empty()) out = run;
  if (out.empty()) return Done{};
  std::error_code failed;
  fs::create_directories(out, failed);
  if (failed) return world_error("cannot make " + out + ": " + failed.message());
  auto lock = FolderLock::take(out, kPatience_s);
  if (!lock) return lock.error();
  if (!*lock)
    return user_error(fmt::format(
        "out is \"{}\", where another process has a run, accepted: another folder", out));
  lock_ = std::move(*lock);
  if (!lock_->warning().empty()) say(lock_->warning());
  if (has_checkpoint(out) && (run.empty() || !fs::equivalent(run, out, failed)))
    return user_error(
        fmt::format("out is \"{}\", which holds the checkpoints of a run, accepted: another "
                    "folder, or resume \"{}\" to continue it",
                    out, out));
  return Done{};
}

Status Saver::go_on_with(Settings& settings, int& first_rank, Objective& objective,
                         RunHooks& hooks) {
  if (saving_.resume.empty()) return Done{};
  const auto checkpoint = load_checkpoint(real_disk(), saving_.resume);
  if (!checkpoint) return checkpoint.error();
  auto on = go_on(*checkpoint, settings, first_rank, objective);
  if (!on) return on.error();
  settings.topology = on->topology;
  first_rank = on->first_rank;
  cuts_ = std::move(on->cuts);
  epoch_ = on->resumption.epoch;
  generation_ = ++on->resumption.generation;
  hooks.resumption = std::move(on->resumption);
  for (const std::string& line : on->told)
    say(line);
  return Done{};
}

void Saver::save(const Settings& settings, const Objective& objective, Every every,
                 RunHooks& hooks) {
  RunIdentity run =
      identity_of(settings, objective, fmt::format("{{\"ranks\":{}}}", settings.ranks));
  run.cuts = cuts_;
  run.generation = generation_;
  thread_ =
      std::make_unique<CheckpointThread>(saving_.out, std::move(run), settings.clock == Clock::wall,
                                         [this](const std::string& line) { say(line); });
  thread_->set_epoch(epoch_, settings.topology);
  hooks.sink.on_epoch = [this, told = std::move(hooks.sink.on_epoch)](const EpochInfo& e) {
    thread_->set_epoch(e.epoch, e.topology);
    if (told) told(e);
  };
  CheckpointOrders& orders = hooks.checkpoints;
  orders.every_s = every.seconds;
  orders.every_steps = every.steps;
  orders.asked = saving_.checkpoint_requests;
  orders.stop = [this] { thread_->stop(); };
  orders.write = [this](CheckpointPart part, CheckpointOrders::Done done) {
    if (const auto what = thrown_->first()) throw std::runtime_error(what->message);
    const bool is_end = part.rank == nullptr;
    thread_->write(std::move(part),
                   [this, is_end, done = std::move(done)](bool is_written, std::string told) {
                     if (is_end && is_written && saving_.on_checkpoint)
                       guarded(*thrown_, "on_checkpoint", false, [&] {
                         return saving_.on_checkpoint(told.substr(sizeof kCheckpointAt - 1)), true;
                       });
                     done(is_written, std::move(told));
                   });
  };
}

// The result of the run and the saver together.
template <class Ran>
Result<Ran> told_by(const Saver& saver, Result<Ran> ran) {
  if (const auto what = saver.thrown()) return *what;
  return ran;
}

}  // namespace

bool has_checkpoint(const std::string& run) {
  const auto there = checkpoints_in(real_disk(), run + "/" + kCheckpointsFolder);
  return std::any_of(there.begin(), there.end(), [](const auto& folder) {
    return folder.second.manifest != CheckpointFolder::Manifest::none;
  });
}

Result<RunResult> run_saved(const Settings& given, std::shared_ptr<Objective> objective,
                            const Saving& saving, RunHooks hooks) {
  if (objective == nullptr) return run(given, objective, std::move(hooks));
  if (Status possible = check(given); !possible) return possible.error();
  Settings settings = given;
  const std::shared_ptr<Objective> own = objective;
  int anywhere = -1;
  Saver saver(saving);
  Status begun = saver.begin(settings, anywhere, objective, hooks);
  if (const auto what = saver.thrown()) return *what;
  if (!begun) return begun.error();
  auto ran = told_by(saver, run(settings, std::move(objective), std::move(hooks)));
  if (ran) ran->objective = own;
  return ran;
}

Result<RunResult> run_saved(const Settings& settings, const Saving& saving, RunHooks hooks) {
  if (Status possible = check(settings); !possible) return possible.error();
  auto objective = make_objective(settings);
  if (!objective) return objective.error();
  return run_saved(settings, std::move(*objective), saving, std::move(hooks));
}

Result<NodeResult> run_node_saved(const Settings& given, const NodeSettings& asked,
                                  std::shared_ptr<Objective> objective, const Saving& saving,
                                  NodeHooks hooks) {
  if (objective == nullptr) return run_node(given, asked, objective, std::move(hooks));
  if (Status possible = check_of_node(given); !possible) return possible.error();
  if (Status possible = check(asked, given); !possible) return possible.error();
  Settings settings = given;
  settings.local_ranks = ranks_here(given);
  NodeSettings node = asked;
  Saver saver(saving);
  Status begun = saver.begin(settings, node.first_rank, objective, hooks.run);
  if (const auto what = saver.thrown()) return *what;
  if (!begun) return begun.error();
  return told_by(saver, run_node(settings, node, std::move(objective), std::move(hooks)));
}

}  // namespace grapevine
