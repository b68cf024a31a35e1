// The ranks of a node that return, or continue under other numbers, while one of their former
// workers is still in a handler: what it sends last is of its own rank.
#include <future>
#include <optional>

#include "actors/clocks/virtual_clock.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/rank/worker.hpp"
#include "actors/run/spawn_run.hpp"
#include "actors/run/spawned_run.hpp"
#include "models/objective.hpp"
#include "tests/catch.hpp"
#include "tests/deadline.hpp"

using namespace grapevine;
using test::awaited;

namespace {

using LastWords = std::function<void(const WorkerDependencies&)>;

/// Computes nothing. In a thread of its own it waits in the handler of Start, as long as the test
/// wants, and then sends its last words.
class Late final : public WorkerActor::base {
 public:
  Late(caf::actor_config& config, WorkerDependencies deps, std::shared_future<void> may_go_on,
       LastWords last_words)
      : WorkerActor::base(config),
        deps_(std::move(deps)),
        may_go_on_(std::move(may_go_on)),
        last_words_(std::move(last_words)) {}

 protected:
  behavior_type make_behavior() override {
    return {
        [](Parameters&) {},
        [](Computed&) {},
        [this](Start) {
          awaited(may_go_on_, "leave to go on");
          last_words_(deps_);
        },
        [](Tick) {},
        [](Order) {},
        [this](Report) {
          WorkerReport report;
          report.rank = deps_.rank;
          return report;
        },
    };
  }
  void on_exit() override {
    deps_.state = nullptr;
    deps_.node = nullptr;
    last_words_ = {};
  }

 private:
  WorkerDependencies deps_;
  const std::shared_future<void> may_go_on_;
  LastWords last_words_;
};

constexpr int kRanks = 4;

/// Ranks 0 to 3. The first worker of rank 1 is late; the others have none.
class Stage {
 public:
  explicit Stage(LastWords last_words = {}, std::optional<ChangeRank> asked_first = {})
      : config_(Clock::simulated),
        system_(config_),
        scheduler_(VirtualScheduler::of(system_)),
        self_(system_) {
    Settings settings;
    settings.clock = Clock::simulated;
    settings.ranks = kRanks;
    settings.gradients = 0;
    settings.sample_s = 0;
    settings.objective.objective = "quadratic";
    RunHooks hooks;
    hooks.make_worker = [this, last_words](caf::actor_system& system, WorkerDependencies deps) {
      if (!last_words || deps.rank != 1 || std::exchange(has_late_, true)) return SpawnedWorker();
      const WorkerActor late = system.spawn<Late, caf::detached>(
          std::move(deps), may_go_on_.get_future().share(), last_words);
      self_->monitor(late);  // before the node does: it hears of the end before this actor
      return SpawnedWorker(late);
    };
    run_.emplace(begin_run(system_, settings, *make_objective(settings), std::move(hooks),
                           [](const Outcome&) {}));
    if (asked_first) answer_ = ask_node(*asked_first);
    scheduler_.run();
  }
  ~Stage() {
    run_->stop();
    scheduler_.clear();
  }

  template <class... Mail>
  void tell_node(Mail... mail) {
    (caf::anon_send(run_->node, std::move(mail)), ...);
    scheduler_.run();
  }
  std::string ask_node(const ChangeRank& wanted) {
    auto asked = self_->request(run_->node, test::kDeadline, wanted);
    scheduler_.run();
    std::string answer;
    asked.receive([&](const std::string& line) { answer = line; },
                  [&](const caf::error& e) { answer = "error: " + system_.render(e); });
    return answer;
  }
  /// To what was asked before the ranks had begun.
  const std::string& first_answer() const { return answer_; }
  void let_late_worker_end() {
    may_go_on_.set_value();
    self_->receive([](const caf::down_msg&) {},
                   caf::after(test::kDeadline) >> [] { test::came_too_late("end of the worker"); });
    scheduler_.run();
  }
  /// Null: there is no such rank.
  RankStatePtr state_of(int rank) {
    auto asked = self_->request(run_->states.front(), test::kDeadline, CopyState{rank});
    scheduler_.run();
    RankStatePtr state;
    asked.receive([&](const RankStatePtr& s) { state = s; }, [](const caf::error&) {});
    return state;
  }
  /// Of the ranks from 0 to `until`; -1: no such rank.
  std::vector<int> gradients(int until) {
    std::vector<int> all;
    for (int rank = 0; rank < until; ++rank) {
      const RankStatePtr state = state_of(rank);
      all.push_back(state ? static_cast<int>(state->gradients) : -1);
    }
    return all;
  }

 private:
  RunSystemConfig config_;
  caf::actor_system system_;
  VirtualScheduler& scheduler_;
  caf::scoped_actor self_;
  std::string answer_;
  std::promise<void> may_go_on_;
  bool has_late_ = false;
  std::optional<SpawnedRun> run_;
};

void sends_gradient(const WorkerDependencies& deps) {
  caf::anon_send(deps.state, Gradient{.rank = deps.rank, .lr = 0, .g = {}, .wants_copy = false});
}

void gives_up(const WorkerDependencies& deps) {
  caf::anon_send(deps.node, KillRank{deps.rank, "it has too little memory"});
}

using Gradients = std::vector<int>;  // by number

}  // namespace

TEST_CASE("the last gradient of a worker is of its rank, which has another number by now") {
  Stage stage(sends_gradient);
  CHECK(stage.gradients(5) == Gradients{0, 0, 0, 0, -1});
  stage.tell_node(Begin{1, {}});
  stage.let_late_worker_end();
  CHECK(stage.gradients(5) == Gradients{-1, 0, 1, 0, 0});
}

TEST_CASE("a worker that gives up ends its rank, which has another number by now") {
  Stage stage(gives_up);
  stage.tell_node(Begin{1, {}});
  stage.let_late_worker_end();
  CHECK(stage.gradients(5) == Gradients{-1, 0, -1, 0, 0});
}

TEST_CASE("ranks that get other numbers twice have the second ones") {
  Stage stage(sends_gradient);
  stage.tell_node(Begin{1, {}}, Begin{2, {}});
  stage.let_late_worker_end();
  CHECK(stage.gradients(6) == Gradients{-1, -1, 0, 1, 0, 0});
}

TEST_CASE("a rank that is to end while the ranks get other numbers is gone") {
  Stage stage(sends_gradient);
  stage.tell_node(Begin{1, {}}, KillRank{0});
  stage.let_late_worker_end();
  CHECK(stage.gradients(5) == Gradients{-1, -1, 1, 0, 0});
}

TEST_CASE("a rank that was about to return begins with the others, under another number") {
  Stage stage(sends_gradient);
  stage.tell_node(RestartRank{1}, Begin{1, {}});
  stage.let_late_worker_end();
  CHECK(stage.gradients(5) == Gradients{-1, 0, 0, 0, 0});
}

TEST_CASE("the last gradient of a worker is not of the rank that returns") {
  Stage stage(sends_gradient);
  stage.tell_node(RestartRank{1});
  stage.let_late_worker_end();
  CHECK(stage.gradients(5) == Gradients{0, 0, 0, 0, -1});
}

TEST_CASE("a rank that is gone begins under another number with the state of another rank") {
  Stage stage(sends_gradient);
  stage.tell_node(KillRank{0}, Begin{1, {}});
  stage.let_late_worker_end();
  CHECK(stage.gradients(5) == Gradients{-1, 1, 1, 0, 0});
}

TEST_CASE("a rank that is to end or to return before the ranks have begun does so once they have") {
  Stage ends({}, ChangeRank{1, false}), returns({}, ChangeRank{1, true});
  CHECK(ends.first_answer() == "rank 1 is gone");
  CHECK(returns.first_answer() == "rank 1 returns with the state of a neighbour");
  CHECK(ends.gradients(kRanks) == std::vector{0, -1, 0, 0});
  CHECK(returns.gradients(kRanks) == std::vector{0, 0, 0, 0});
}
