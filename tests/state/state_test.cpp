// The state actor by itself: what it answers, and when.
#include "actors/state/state.hpp"

#include <bit>
#include <optional>

#include "actors/clocks/virtual_clock.hpp"
#include "actors/run/spawn_run.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr int kSize = 4;

/// Of one rank of push-sum, which nobody else talks to.
class Stage {
 public:
  Stage() : config_(Clock::simulated), system_(config_), scheduler_(VirtualScheduler::of(system_)) {
    Settings settings;
    settings.clock = Clock::simulated;
    settings.ranks = 1;
    settings.objective.objective = "quadratic";
    settings.objective.dim = kSize;
    auto objective = make_objective(settings);
    REQUIRE(objective);
    StateDependencies deps{.clock = RunClock(system_), .objective = *objective, .method = "sgp"};
    deps.pools = {4, 4, {}, 1};
    state_ = system_.spawn<State>(std::move(deps));
    say(Attach{});
    enter(1);
  }
  ~Stage() {
    caf::anon_send_exit(state_, caf::exit_reason::kill);
    scheduler_.run();
    scheduler_.clock().cancel_all();
  }

  template <class Mail>
  void say(Mail mail) {
    caf::anon_send(state_, std::move(mail));
    scheduler_.run();
  }
  void enter(uint64_t epoch) {
    auto view = std::make_shared<View>();
    view->epoch = epoch;
    say(SetView{0, std::move(view)});
  }
  void inherit(double weight, uint64_t from_epoch) {
    const auto x = std::make_shared<Buffer>(kSize, DType::f64);
    say(Inherit{0, weight, {Lease::of(*x, [x] {}), x->dtype(), x->size()}, from_epoch});
  }
  void ask_for_record() {
    system_.spawn(
        [](caf::event_based_actor* self, const StateActor& state,
           std::optional<RankRecordPtr>* record) {
          self->request(state, caf::infinite, RecordRank{0})
              .then([record](const RankRecordPtr& told) { *record = told; });
        },
        state_, &record_);
    scheduler_.run();
  }
  bool answered() const { return record_.has_value(); }
  bool knows_the_rank() const { return *record_ != nullptr; }
  double weight_recorded() const {
    for (const auto& number : (*record_)->numbers)
      if (number.name == "w") return std::bit_cast<double>(number.bits);
    return 0;
  }

 private:
  RunSystemConfig config_;
  caf::actor_system system_;
  VirtualScheduler& scheduler_;
  StateActor state_;
  std::optional<RankRecordPtr> record_;
};

}  // namespace

TEST_CASE("a rank is recorded with the mass that has come for it, once its epoch has come too") {
  Stage stage;
  SECTION("at once where nothing has come") {
    stage.ask_for_record();
    REQUIRE(stage.answered());
    CHECK(stage.weight_recorded() == 1);
  }
  SECTION("with the epoch, no sooner") {
    stage.inherit(0.5, 3);
    stage.ask_for_record();
    stage.enter(2);
    CHECK_FALSE(stage.answered());
    stage.enter(3);
    REQUIRE(stage.answered());
    CHECK(stage.weight_recorded() == 1.5);
  }
  SECTION("or at the end of the run, where none comes any more") {
    stage.inherit(0.5, 3);
    stage.ask_for_record();
    stage.say(Collect{});
    REQUIRE(stage.answered());
    CHECK(stage.weight_recorded() == 1.5);
  }
  SECTION("and not at all where it has gone meanwhile") {
    stage.inherit(0.5, 3);
    stage.ask_for_record();
    stage.say(Detach{0});
    REQUIRE(stage.answered());
    CHECK_FALSE(stage.knows_the_rank());
  }
}
