// The topology manager between rosters and ranks, with spectra that come when the test lets them:
// what it tells the ranks, and when.
#include <cmath>
#include <limits>
#include <map>

#include "actors/clocks/virtual_clock.hpp"
#include "actors/node/topology_manager.hpp"
#include "actors/run/spawn_run.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

/// Keeps what is to be computed until it is told to.
class HeldCompute final : public Compute {
 public:
  void submit(GradientJob) override {}
  void post(std::function<void(int)> task) override { tasks_.push_back(std::move(task)); }
  void stop() override { tasks_.clear(); }

  size_t waiting() const { return tasks_.size(); }
  void compute() {
    for (const auto& task : std::exchange(tasks_, {}))
      task(0);
  }

 private:
  std::vector<std::function<void(int)>> tasks_;
};

struct Told {
  std::map<int, std::vector<ViewPtr>> views;  // by rank
  std::map<int, std::vector<int>> down;
  std::vector<EpochInfo> constants;
  std::vector<EdgeRate> rates;  // the last
  uint64_t exchanges = 0;       // that each rank says it has had with each neighbour
};

CommunicatorActor::behavior_type rank_of(CommunicatorActor::pointer, int rank, Told* told) {
  return {
      [](Frame&) {},
      [](Tick) {},
      [](Taken&) {},
      [](Judged) {},
      [](Messages&) {},
      [=](const ViewPtr& view) { told->views[rank].push_back(view); },
      [=](PeerDown down) { told->down[rank].push_back(down.rank); },
      [](Order) {},
      [=](Report) {
        CommunicatorReport report;
        report.rank = rank;
        if (told->views[rank].empty()) return report;
        for (const auto& edge : told->views[rank].back()->edges)
          report.edges.push_back({.peer = edge.peer, .applied = told->exchanges});
        return report;
      },
  };
}

MembershipActor::behavior_type owner(MembershipActor::pointer, Told* told) {
  return {
      [](const Reconfigure&) { return std::string(); },
      [=](const EdgeRatesPtr& rates) { told->rates = *rates; },
      [=](const EpochInfo& info) { told->constants.push_back(info); },
      [](ShareDone) {},
      [](const OwnWork&) {},
      [](Suspected) {},
      [](RankLost) {},
      [](RankReturns back) { return back.rank; },
      [](RankReady) {},
  };
}

/// A manager whose process has the ranks 0 to `here` - 1.
class Stage {
 public:
  explicit Stage(int here, double rate = 1)
      : config_(Clock::simulated), system_(config_), scheduler_(VirtualScheduler::of(system_)) {
    auto settings = std::make_shared<Settings>();
    settings->clock = Clock::simulated;
    settings->rate = rate;
    membership_ = system_.spawn(owner, &told);
    manager_ = system_.spawn<TopologyManager>(
        ManagerDependencies{.clock = RunClock(system_),
                            .settings = settings,
                            .compute = compute,
                            .step_s = 1,
                            .observers = {},
                            .membership = membership_,
                            .spectra = std::make_shared<SpectrumCache>()});
    auto ranks = std::make_shared<std::vector<RankActors>>();
    for (int rank = 0; rank < here; ++rank)
      ranks->push_back({rank, system_.spawn(rank_of, rank, &told), {}});
    for (const RankActors& r : *ranks)
      communicators_.push_back(r.communicator);
    say(RanksHere(std::move(ranks)));
  }
  ~Stage() {
    compute->stop();
    for (const CommunicatorActor& c : communicators_)
      caf::anon_send_exit(c, caf::exit_reason::kill);
    caf::anon_send_exit(manager_, caf::exit_reason::kill);
    caf::anon_send_exit(membership_, caf::exit_reason::kill);
    scheduler_.run();
    scheduler_.clock().cancel_all();
  }

  template <class Mail>
  void say(Mail mail) {
    caf::anon_send(manager_, std::move(mail));
    scheduler_.run();
  }
  void roster(uint64_t epoch, std::vector<int> ranks, const std::string& topology = "ring") {
    auto next = std::make_shared<Roster>();
    next->epoch = epoch;
    next->topology = topology;
    for (const int rank : ranks)
      next->ranks.push_back({rank, 0});
    say(RosterPtr(std::move(next)));
  }
  void hear(std::vector<EdgeRate> rates) {
    say(EdgeRatesPtr(std::make_shared<std::vector<EdgeRate>>(std::move(rates))));
  }
  void solve() {
    while (compute->waiting() > 0) {
      compute->compute();
      scheduler_.run();
    }
  }
  void pass(int timers) {  // of the manager's own: it measures anew at each
    for (int k = 0; k < timers; ++k)
      scheduler_.step();
  }
  const View& last_view(int rank) { return *told.views[rank].back(); }

  Told told;
  std::shared_ptr<HeldCompute> compute = std::make_shared<HeldCompute>();

 private:
  RunSystemConfig config_;
  caf::actor_system system_;
  VirtualScheduler& scheduler_;
  MembershipActor membership_;
  TopologyManagerActor manager_;
  std::vector<CommunicatorActor> communicators_;
};

}  // namespace

TEST_CASE("a roster of nobody may come while a spectrum is being solved") {
  Stage stage(4);
  stage.roster(1, {0, 1, 2, 3});
  stage.roster(2, {});
  stage.solve();
  CHECK(stage.told.constants.empty());
  stage.roster(3, {0, 1, 2});
  stage.solve();
  CHECK(stage.last_view(2).epoch == 3);
  CHECK(stage.last_view(2).eta > 0);
  CHECK(stage.told.constants.back().ranks == 3);
}

TEST_CASE("the newest roster is told at once, and its constants when they are there") {
  Stage stage(4);
  stage.roster(1, {0, 1, 2, 3});
  REQUIRE(stage.told.views[3].size() == 1);
  CHECK(stage.last_view(3).eta == 0);  // plain averaging, before there is anything better
  CHECK(stage.last_view(3).alpha_tilde == 0.5);
  stage.solve();
  REQUIRE(stage.told.views[3].size() == 2);
  const double eta = stage.last_view(3).eta;
  CHECK(eta > 0);
  for (uint64_t epoch = 2; epoch < 9; ++epoch) {  // faster than any spectrum
    stage.roster(epoch, epoch % 2 == 0 ? std::vector{0, 1, 2} : std::vector{0, 1, 2, 3});
    CHECK(stage.last_view(2).epoch == epoch);
    CHECK(stage.last_view(2).ranks == (epoch % 2 == 0 ? 3 : 4));
    CHECK(stage.last_view(2).eta == eta);
    CHECK(stage.compute->waiting() == 1);  // one at a time, however many rosters come
  }
  stage.solve();
  CHECK(stage.last_view(2).epoch == 8);
  CHECK(stage.last_view(2).eta > eta);  // three are closer to each other than four
  CHECK(stage.told.constants.back().epoch == 8);
}

TEST_CASE("rates that nobody can have move the constants by no more than a hundred times") {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double endless = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, 1e-310, 1e-9, 1e300, endless, none, -1.0}) {
    Stage stage(4);
    stage.roster(1, {0, 1, 2, 3});
    stage.solve();
    const double eta = stage.last_view(0).eta;
    stage.hear({{0, 1, bad}, {1, 2, bad}, {2, 3, bad}, {0, 3, bad}});
    stage.pass(1);
    stage.solve();
    INFO(bad);
    CHECK(stage.last_view(0).eta >= 0.0099 * eta);
    CHECK(stage.last_view(0).eta <= 101 * eta);
    CHECK(std::isfinite(stage.last_view(0).alpha_tilde));
    stage.hear({{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {0, 3, 1}});
    stage.pass(1);
    stage.solve();
    CHECK(stage.last_view(0).eta > eta);
  }
}

TEST_CASE("before anything could be solved ranks average plainly") {
  Stage stage(4, 1e-200);  // chi1 chi2 is beyond any number
  stage.roster(1, {0, 1, 2, 3});
  stage.solve();
  CHECK(stage.last_view(0).epoch == 1);
  CHECK(stage.last_view(0).eta == 0);
  CHECK(stage.last_view(0).alpha_tilde == 0.5);
}

TEST_CASE("what cannot be solved leaves the last constants") {
  Stage stage(4, 1e-154);  // of the ring chi1 chi2 is a number, of the chain it is beyond any
  stage.roster(1, {0, 1, 2, 3});
  stage.solve();
  const double eta = stage.last_view(0).eta, alpha_tilde = stage.last_view(0).alpha_tilde;
  const EpochInfo solved = stage.told.constants.back();
  REQUIRE(eta > 0);
  REQUIRE(alpha_tilde != 0.5);
  const auto all_stay = [&] {
    const EpochInfo& told = stage.told.constants.back();
    CHECK(stage.last_view(0).eta == eta);
    CHECK(stage.last_view(0).alpha_tilde == alpha_tilde);
    CHECK(told.eta == eta);
    CHECK(told.chi1 == solved.chi1);
    CHECK(told.solved_at_s == solved.solved_at_s);
  };
  const size_t told = stage.told.constants.size();
  stage.roster(2, {0, 1, 2, 3}, "chain");
  stage.solve();
  CHECK(stage.told.constants.size() > told);  // it was tried
  CHECK(stage.last_view(0).epoch == 2);
  all_stay();
  stage.roster(3, {0, 1, 2}, "ring");
  stage.solve();
  CHECK(stage.last_view(0).epoch == 3);
  CHECK(stage.last_view(0).eta > eta);  // three are closer to each other than four
}

TEST_CASE("constants follow the rates that are told, and each says when it was found") {
  Stage stage(4);
  stage.roster(1, {0, 1, 2, 3});
  stage.solve();
  const double eta = stage.last_view(0).eta;
  CHECK(stage.told.constants.back().solved_at_s == stage.told.constants.back().at_s);
  stage.hear({{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {0, 3, 1}});  // twice the wanted ones
  stage.pass(1);
  stage.solve();
  CHECK(stage.last_view(0).eta == Approx(2 * eta));
  CHECK(stage.told.constants.back().epoch == 1);
  CHECK(stage.told.constants.back().eta == Approx(2 * eta));
  CHECK(stage.told.constants.back().solved_at_s > stage.told.constants.back().at_s);
  stage.hear({{0, 1, 1.06}, {1, 2, 1.06}, {2, 3, 1.06}, {0, 3, 1.06}});
  stage.pass(1);
  stage.solve();
  CHECK(stage.last_view(0).eta == Approx(2.12 * eta));
}

TEST_CASE("an edge outside the graph has no rate, and none from before when it is back") {
  Stage stage(4);
  stage.roster(1, {0, 1, 2, 3});
  stage.solve();
  const double eta = stage.last_view(0).eta;
  stage.hear({{0, 2, 9}, {7, 8, 9}, {0, 3, 40}});
  stage.roster(2, {0, 1, 2, 3}, "chain");  // without the edge from 0 to 3
  stage.solve();
  stage.roster(3, {0, 1, 2, 3}, "ring");
  stage.solve();
  CHECK(stage.last_view(0).eta == eta);
  stage.pass(1);
  stage.solve();
  CHECK(stage.last_view(0).eta == Approx(eta));
  for (const EdgeRate& rate : stage.told.rates)
    CHECK(rate.per_second == Approx(0.5).epsilon(0.2));
}
