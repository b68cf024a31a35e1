// Edges by NCCL against a fake of it, on the adversary: whatever NCCL and the other end do, and in
// whatever order, an exchange has one outcome, a slot one user, and what breaks breaks alone.
#include "kernels/gpu/nccl_edge.hpp"

#include <algorithm>
#include <deque>

#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/device/fake_nccl.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kSize = 40;
constexpr size_t kBytes = kSize * sizeof(float);
const std::set<std::string> kNothing;

/// A device with its edges, and two pools that are too small.
struct Bench {
  AdverseWorld world;
  Adversary adversary{world, "A"};
  Device& device{adversary};
  Fences fences{device};
  FakeNccl nccl{world, adversary};
  double posted_s = 0;
  ToOwner later;
  NcclEdges edges;
  Stream rules, jumps;
  Block block[2];
  std::unique_ptr<SnapshotPool> snapshots, received;

  Bench(uint64_t seed, uint32_t most_edges)
      : world(seed),
        later([this](std::function<void()> what) {
          posted_s = std::max(posted_s, world.now() + world.chance(1e-5, 1e-3));
          world.at(posted_s, std::move(what));
        }),
        edges(device, fences, nccl.calls(), [this](auto what) { later(std::move(what)); },
              {.most_edges = most_edges}) {}

  /// False: the device is lost.
  bool start(size_t slots) {
    for (Stream* stream : {&rules, &jumps})
      if (fences.make_stream(Fences::Kind::shared, *stream) != Fate::ok) return false;
    std::unique_ptr<SnapshotPool>* pools[] = {&snapshots, &received};
    for (const size_t k : {0, 1}) {
      const size_t bytes = SnapshotPool::bytes_for(kSize, DType::f32, slots);
      if (device.allocate(bytes, Block::Kind::device, block[k]) != Fate::ok) return false;
      *pools[k] = std::make_unique<SnapshotPool>(fences, block[k], kSize, DType::f32, slots);
    }
    return edges.start() == Fate::ok;
  }

  /// Written on `rules`. Empty: there is none.
  Lease snapshot(Where where = Where::current()) {
    Lease out = snapshots->take(rules, where);
    Fence taken;
    if (!out || !write(rules, out) || fences.record(rules, taken, where) != Fate::ok) return {};
    out.set_ready(taken);
    return out;
  }
  bool write(Stream stream, Lease& slot) {
    const Access whole[] = {{slot.vec().data, kBytes, Access::Mode::writes}};
    const auto fill = [](void*, void* const* at) {
      std::fill_n(static_cast<float*>(at[0]), kSize, 0.25f);
    };
    return device.launch(stream, whole, fill) == Fate::ok;
  }
  /// As a jump does, on a stream of its own, so that nothing else orders it.
  bool read(Lease& slot, Where where = Where::current()) {
    const Access whole[] = {{slot.vec().data, kBytes, Access::Mode::reads}};
    Fence through;
    if (device.launch(jumps, whole, [](void*, void* const*) {}) != Fate::ok ||
        fences.record(jumps, through, where) != Fate::ok) {
      return false;
    }
    slot.read_by(through);
    return true;
  }
  /// Every slot that is free: whoever still uses one would be seen.
  void rewrite() {
    for (auto* pool : {&snapshots, &received}) {
      std::vector<Lease> slots;
      while (Lease slot = (*pool)->take(jumps)) {
        write(jumps, slot);
        slots.push_back(std::move(slot));
      }
      Fence written;
      if (fences.record(jumps, written) != Fate::ok) return;
      for (Lease& slot : slots)
        slot.set_ready(written);
    }
  }
  size_t out() const { return snapshots->in_use() + received->in_use(); }
};

/// The calls of an edge: at most one end of each exchange, and one end of the edge.
struct Told {
  int connected = 0, arrived = 0, broken = 0, ends = 0;  // ends: of exchange 1
  bool is_wrong = false;
  std::string reason;

  void take(const NcclNews& news) {
    is_wrong = is_wrong || broken > 0;
    connected += news.kind == NcclNews::Kind::connected;
    arrived += news.kind == NcclNews::Kind::arrived;
    broken += news.kind == NcclNews::Kind::broken;
    ends += news.number == 1;
    is_wrong =
        is_wrong || connected > 1 || (news.kind == NcclNews::Kind::broken) == news.reason.empty();
    if (news.kind == NcclNews::Kind::broken) reason = news.reason;
  }
};

/// One edge, led by hand.
struct Edge {
  Bench bench{1, 1};
  Told told;
  std::unique_ptr<NcclEdge> edge;
  double now_s = 0;
  std::deque<std::function<void()>> mail;
  bool is_late = false;  // what is posted waits for deliver()
  bool was_dropped = false;
  bool is_whole = true;  // slots are received whole, and read
  bool came = false;     // something with the last news

  Edge() {
    REQUIRE(bench.start(1));
    bench.later = [this](std::function<void()> what) {
      mail.push_back(std::move(what));
      if (!is_late) bench.world.after(1e-5, [this] { deliver(); });
    };
  }
  void deliver() {
    while (!mail.empty()) {
      const std::function<void()> what = std::move(mail.front());
      mail.pop_front();
      what();
    }
  }
  void connect() {
    edge = bench.edges.connect(
        {}, 0, [this](const NcclNews& news) { take(news); }, now_s);
    REQUIRE(edge);
    if (!bench.nccl.comms.empty()) bench.nccl.comms[0].stream = edge->stream();
  }
  void take(const NcclNews& news) {
    told.take(news);
    Lease received = news.received;
    came = static_cast<bool>(received);
    if (received && is_whole) CHECK(bench.read(received));
  }
  void meet() {
    connect();
    bench.nccl.connect(0);
    finish_all();
    REQUIRE(edge->is_ready());
    REQUIRE(told.connected == 1);
  }
  void exchange() {
    REQUIRE(edge->take_turn());
    Lease sent = bench.snapshot();
    Lease received = bench.received->take(edge->stream());
    REQUIRE((sent && received));
    CHECK(edge->exchange(1, {std::move(sent), kBytes}, {std::move(received), kBytes}, now_s));
    const NcclAnswer answer = bench.nccl.exchange;
    CHECK(edge->is_broken() ==
          (answer != NcclAnswer::success && answer != NcclAnswer::in_progress));
    finish_all();
  }
  void finish_all() {
    if (edge) edge->poll(now_s);
    CHECK(bench.world.run());
    bench.rewrite();
    CHECK(bench.world.run());
  }

  /// Events that it has recorded on its stream, which NCCL forbids while it queues.
  uint64_t records() const {
    uint64_t out = 0;
    for (const auto& [site, calls] : bench.world.sites)
      if (site.first == "record" && site.second.find("nccl_edge.cpp") == 0) out += calls;
    return out;
  }

  enum Action { meets, queues, answers, errs, expires, drops, ends };
  void act(Action action) {
    FakeNccl& nccl = bench.nccl;
    switch (action) {
      case meets: nccl.connect(0); break;
      case queues: nccl.queue(0); break;
      case answers: nccl.answer(0); break;
      case errs: nccl.comms[0].state = NcclAnswer::remote_error; break;
      case expires: now_s += 100; break;
      case drops:
        edge = {};
        was_dropped = true;
        break;
      case ends: nccl.end(0);
    }
    finish_all();
  }
  /// All news are told; and NCCL lets go at last, or never.
  void finish(bool lets_go) {
    is_late = false;
    deliver();
    finish_all();
    edge = {};
    finish_all();
    const FakeNccl::Comm& comm = bench.nccl.comms[0];
    CHECK(comm.is_given_up);
    if (lets_go) bench.nccl.end(0);
    finish_all();
    const bool is_stuck = static_cast<bool>(comm.ended);
    CHECK(bench.edges.edges() == is_stuck);
    CHECK(bench.out() == 2 * bench.edges.written_off());
    if (lets_go) CHECK((!is_stuck && bench.edges.written_off() == 0));
    CHECK_FALSE(told.is_wrong);
    CHECK(bench.world.judge().findings() == kNothing);
  }
};

std::string words_of(const std::vector<Edge::Action>& order) {
  static const char* const kNames[] = {"meets",   "queues", "answers", "errs",
                                       "expires", "drops",  "ends"};
  std::string out;
  for (const Edge::Action a : order)
    out += std::string(out.empty() ? "" : ", ") + kNames[a];
  return out;
}

}  // namespace

TEST_CASE(
    "whatever happens to an exchange, in every order: it has one end, and no slot two users") {
  std::vector<Edge::Action> order{Edge::queues,  Edge::answers, Edge::errs,
                                  Edge::expires, Edge::drops,   Edge::ends};
  int arrived = 0, broken = 0;
  do {
    for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
      Edge one;
      INFO(words_of(order) << ", variant " << variant);
      one.meet();
      one.bench.nccl.exchange = variant & 1 ? NcclAnswer::success : NcclAnswer::in_progress;
      one.exchange();
      one.is_late = (variant & 2) != 0;
      for (const Edge::Action action : order)
        one.act(action);
      one.finish((variant & 4) != 0);
      CHECK(one.told.ends <= 1);
      CHECK(one.told.arrived <= one.told.ends);
      arrived += one.told.arrived;
      broken += one.told.broken;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(arrived > 300);
  CHECK(broken > 1000);
}

TEST_CASE(
    "whatever happens to an edge that connects, in every order: it breaks once, or not at all") {
  std::vector<Edge::Action> order{Edge::meets, Edge::errs, Edge::expires, Edge::drops, Edge::ends};
  int connected = 0, broken = 0;
  do {
    for (const int variant : {0, 1, 2, 3}) {
      Edge one;
      INFO(words_of(order) << ", variant " << variant);
      one.connect();
      one.is_late = (variant & 1) != 0;
      for (const Edge::Action action : order)
        one.act(action);
      one.finish((variant & 2) != 0);
      CHECK(one.told.ends == 0);
      connected += one.told.connected;
      broken += one.told.broken;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(connected > 50);
  CHECK(broken > 50);
}

TEST_CASE("an exchange that nobody disturbs arrives, and the next one begins") {
  Edge one;
  one.meet();
  one.exchange();
  CHECK(one.records() == 0);  // the kernel is not queued
  CHECK_FALSE(one.edge->take_turn());
  one.act(Edge::queues);
  CHECK(one.records() == 1);
  CHECK(one.told.arrived == 0);  // the other end has not answered
  one.act(Edge::answers);
  CHECK(one.told.arrived == 1);
  CHECK(one.told.broken == 0);
  CHECK(one.edge->take_turn());
  one.edge->leave_turn();
  CHECK(one.bench.out() == 0);
  one.finish(true);
  CHECK(one.bench.nccl.comms[0].was_idle);
}

TEST_CASE("an exchange of two sizes, and of one way alone, keeps what it has and no more") {
  for (const size_t sent_bytes : {size_t{0}, kBytes / 2, kBytes}) {
    for (const size_t received_bytes : {size_t{0}, kBytes / 4, kBytes}) {
      if (sent_bytes + received_bytes == 0) continue;
      INFO(sent_bytes << " bytes go, " << received_bytes << " come");
      Edge one;
      one.meet();
      one.bench.nccl.exchange = NcclAnswer::success;
      REQUIRE(one.edge->take_turn());
      NcclEdge::Half sent, received;
      if (sent_bytes > 0) sent = {one.bench.snapshot(), sent_bytes};
      if (received_bytes > 0)
        received = {one.bench.received->take(one.edge->stream()), received_bytes};
      REQUIRE(one.edge->exchange(1, std::move(sent), std::move(received), one.now_s));
      one.finish_all();
      CHECK(one.bench.snapshots->in_use() == (sent_bytes > 0));
      CHECK(one.bench.received->in_use() == (received_bytes > 0));
      CHECK(one.bench.nccl.last.sent_bytes == sent_bytes);
      CHECK(one.bench.nccl.last.received_bytes == received_bytes);
      CHECK((one.bench.nccl.last.sent == nullptr) == (sent_bytes == 0));
      CHECK((one.bench.nccl.last.received == nullptr) == (received_bytes == 0));
      one.is_whole = false;  // what came is shorter than its slot
      one.act(Edge::answers);
      CHECK(one.told.arrived == 1);
      CHECK(one.came == (received_bytes > 0));
      CHECK(one.bench.out() == 0);
      one.finish(true);
    }
  }
}

TEST_CASE("every answer of NCCL, at every call: success and in progress go on, any other breaks") {
  enum Call { init, connecting, ready, exchange, queueing, flying };
  for (int code = -2; code <= 10; ++code) {
    const auto answer = static_cast<NcclAnswer>(code);
    const bool goes_on = answer == NcclAnswer::success || answer == NcclAnswer::in_progress;
    CHECK(std::string(words(answer)).size() > 5);
    for (const Call call : {init, connecting, ready, exchange, queueing, flying}) {
      Edge one;
      INFO("answer " << code << " to call " << call);
      FakeNccl& nccl = one.bench.nccl;
      if (call == init) nccl.init = answer;
      if (call <= connecting) one.connect();
      if (call > connecting) one.meet();
      nccl.exchange = call == exchange ? answer
                      : call == flying ? NcclAnswer::success
                                       : NcclAnswer::in_progress;
      if (call > ready) one.exchange();
      if (call != init && call != exchange) nccl.comms[0].state = answer;
      one.finish_all();
      CHECK(one.told.broken == !goes_on);
      CHECK(one.told.ends == (!goes_on && call > ready));
      CHECK(one.edge->is_broken() == !goes_on);
      CHECK(nccl.comms[0].is_given_up == !goes_on);
      CHECK(one.told.reason == (goes_on ? "" : words(answer)));
      one.finish(true);
    }
  }
}

TEST_CASE("an edge that NCCL cannot even begin breaks, and there is nothing to give up") {
  Edge one;
  one.bench.nccl.makes_comm = false;
  one.bench.nccl.init = NcclAnswer::system_error;
  one.connect();
  CHECK(one.edge->is_broken());
  CHECK(one.told.broken == 0);  // never told within a call
  one.finish_all();
  CHECK(one.told.broken == 1);
  CHECK_FALSE(one.edge->exchange(1, {}, {}, 0));
  CHECK(one.bench.edges.edges() == 0);
}

TEST_CASE("an edge is polled until it connects, and is given up when it is due and not before") {
  Edge one;
  one.connect();
  CHECK(one.edge->due_s() == 0);
  for (; one.now_s < 9.99; one.now_s = one.edge->due_s()) {
    one.edge->poll(one.now_s);
    REQUIRE(one.edge->due_s() > one.now_s);
    REQUIRE(one.edge->due_s() <= 10);
  }
  CHECK_FALSE(one.edge->is_broken());
  one.edge->poll(10);
  CHECK(one.edge->is_broken());
  CHECK(one.edge->due_s() > 1e9);
  one.finish_all();
  CHECK(one.told.reason == "the other end does not come");
  one.finish(true);
}

TEST_CASE("a broken edge whose abort never returns leaves the others alone") {
  Bench bench(1, 2);
  REQUIRE(bench.start(2));
  Told told[2];
  std::unique_ptr<NcclEdge> edge[2];
  for (const size_t k : {0, 1}) {
    edge[k] = bench.edges.connect(
        {}, 0, [&, k](const NcclNews& n) { told[k].take(n); }, 0);
    REQUIRE(edge[k]);
    bench.nccl.comms[k].stream = edge[k]->stream();
  }
  CHECK(bench.edges.connect({}, 0, {}, 0) == nullptr);  // there are two
  bench.nccl.connect(0);
  edge[0]->poll(0);
  CHECK_FALSE(edge[0]->take_turn());  // the other one connects
  bench.nccl.connect(1);
  edge[1]->poll(0);
  const auto begin = [&](size_t k, uint64_t number, double now_s) {
    REQUIRE(edge[k]->take_turn());
    CHECK_FALSE(edge[1 - k]->take_turn());
    bench.nccl.exchange = NcclAnswer::success;
    REQUIRE(edge[k]->exchange(number, {bench.snapshot(), kBytes},
                              {bench.received->take(edge[k]->stream()), kBytes}, now_s));
    CHECK(bench.world.run());
  };
  begin(0, 1, 0);
  edge[0]->poll(100);
  CHECK(bench.world.run());
  CHECK(told[0].broken == 1);
  CHECK(bench.edges.written_off() == 1);
  for (uint64_t number = 1; number <= 5; ++number) {
    begin(1, number, 100);
    bench.nccl.answer(1);
    CHECK(bench.world.run());
    bench.rewrite();
  }
  CHECK(told[1].arrived == 5);
  CHECK(bench.edges.connect({}, 0, {}, 0) ==
        nullptr);  // it might wait for the kernel that is stuck
  CHECK(bench.out() == 2);
  CHECK(bench.world.judge().findings() == kNothing);
}

// --- from seeds: three edges of one device, and everything that may happen to them

namespace {

struct Setting {
  uint64_t seed = 1;
  std::optional<AdverseWorld::Site> left_out = {};
  uint64_t fail_call = 0, fail_work = 0;
  bool is_calm = false;  // NCCL and the other ends do what they should
};

struct Seen {
  std::set<std::string> findings;
  std::map<AdverseWorld::Site, uint64_t> sites;
  uint64_t begun = 0, arrived = 0, broken = 0, dropped = 0;  // exchanges
  uint64_t twice = 0, calls = 0, works = 0;
  size_t out = 0, edges = 0, written_off = 0, stuck = 0;
  bool is_lost = false;
};

class Crowd {
 public:
  static constexpr size_t kEdges = 3;
  static constexpr uint64_t kExchanges = 8;  // of an edge, at most
  static constexpr double kEnd_s = 300;

  explicit Crowd(const Setting& setting) : setting_(setting), bench_(setting.seed, kEdges + 1) {
    world().left_out = setting.left_out;
    bench_.adversary.fail_call = setting.fail_call;
    bench_.adversary.fail_work = setting.fail_work;
    bench_.nccl.on_given_up = [this](size_t comm) {
      if (!often(0.1)) after(1e-4, 1, [this, comm] { bench_.nccl.end(comm); });
    };
  }

  Seen run() {
    if (bench_.start(kEdges - 1))
      for (size_t k = 0; k < kEdges; ++k)
        connect(k);
    world().at(kEnd_s, [this] {
      has_ended_ = true;
      for (Line& line : lines_)
        drop(line);
    });
    if (!world().run()) world().judge().find("stuck: it goes on for ever");
    return seen();
  }

 private:
  struct Line {
    std::unique_ptr<NcclEdge> edge;
    uint64_t life = 0;  // of its edges
    size_t comm = 0;
    uint64_t number = 0, exchanges = 0;
    std::map<uint64_t, int> open;  // exchanges begun on this edge, and how often they have ended
    bool is_broken = false;
  };

  AdverseWorld& world() { return bench_.world; }
  bool often(double part) { return !setting_.is_calm && world().random().uniform() < part; }
  void after(double least_s, double most_s, std::function<void()> what) {
    world().after(world().chance(least_s, most_s), std::move(what));
  }
  /// If the edge is still the same one then.
  void later(size_t k, double least_s, double most_s, std::function<void()> what) {
    after(least_s, most_s, [this, k, life = lines_[k].life, what = std::move(what)] {
      if (!has_ended_ && lines_[k].life == life && lines_[k].edge) what();
    });
  }

  void connect(size_t k) {
    if (has_ended_ || bench_.adversary.lost()) return;
    Line& line = lines_[k];
    FakeNccl& nccl = bench_.nccl;
    nccl.makes_comm = !often(0.05);
    nccl.init =
        !nccl.makes_comm || often(0.05) ? NcclAnswer::system_error : NcclAnswer::in_progress;
    const auto tell = [this, k, life = ++line.life](const NcclNews& news) {
      if (lines_[k].life != life) world().judge().find("an edge that was dropped tells");
      take(k, news);
    };
    line.edge = bench_.edges.connect({}, 0, tell, world().now());
    if (!line.edge) return after(1e-2, 1, [this, k] { connect(k); });
    line.is_broken = false;
    line.number = 0;
    if (nccl.makes_comm) {
      line.comm = nccl.comms.size() - 1;
      nccl.comms[line.comm].stream = line.edge->stream();
      if (!often(0.1)) later(k, 1e-3, 5, [this, comm = line.comm] { bench_.nccl.connect(comm); });
      if (often(0.1)) later(k, 1e-3, 50, [this, comm = line.comm] { err(comm); });
    }
    if (often(0.2)) later(k, 1e-3, 50, [this, k] { give_up(k); });
    poll(k);
  }
  void err(size_t comm) { bench_.nccl.comms[comm].state = NcclAnswer::remote_error; }

  void poll(size_t k) {
    lines_[k].edge->poll(world().now());
    const double due_s = lines_[k].edge->due_s();
    if (due_s > 1e9) return;
    world().at(due_s, [this, k, life = lines_[k].life, due_s] {
      if (lines_[k].life == life && lines_[k].edge && lines_[k].edge->due_s() <= due_s) poll(k);
    });
  }

  void take(size_t k, const NcclNews& news) {
    Line& line = lines_[k];
    if (line.is_broken) world().judge().find("an edge that has broken tells");
    if (news.kind == NcclNews::Kind::connected) return exchange(k);
    if (news.number != 0) end(line, news.number);
    if (news.kind == NcclNews::Kind::arrived) {
      ++seen_.arrived;
      Lease received = news.received;
      bench_.read(received);
      return later(k, 1e-4, 1e-1, [this, k] { exchange(k); });
    }
    seen_.broken += news.number != 0;
    line.is_broken = true;
    line.edge = {};  // from within what it tells
    line.open.clear();
    bench_.rewrite();
    after(1e-2, 1, [this, k] { connect(k); });
  }
  void end(Line& line, uint64_t number) { seen_.twice += ++line.open[number] > 1; }

  void exchange(size_t k) {
    Line& line = lines_[k];
    if (!line.edge || line.exchanges == kExchanges || has_ended_) return;
    const auto again = [this, k] { exchange(k); };
    if (line.edge->is_broken()) return;
    if (!line.edge->take_turn()) return later(k, 1e-3, 1e-1, again);
    Lease sent = bench_.snapshot();
    Lease received = bench_.received->take(line.edge->stream());
    if (!sent || !received || often(0.1)) {
      line.edge->leave_turn();
      sent = received = {};
      bench_.rewrite();
      return later(k, 1e-3, 1e-1, again);
    }
    FakeNccl& nccl = bench_.nccl;
    nccl.exchange = often(0.05)                 ? NcclAnswer::unhandled_cuda_error
                    : world().random().below(2) ? NcclAnswer::success
                                                : NcclAnswer::in_progress;
    line.open[++line.number] = 0;
    ++line.exchanges;
    ++seen_.begun;
    if (!line.edge->exchange(line.number, {std::move(sent), kBytes}, {std::move(received), kBytes},
                             world().now())) {
      world().judge().find("an edge that is not broken refuses an exchange");
    }
    answer(k);
    poll(k);
  }

  void answer(size_t k) {
    const size_t comm = lines_[k].comm;
    const double most_s = setting_.is_calm ? 1 : 4;  // they have two
    if (often(0.1)) later(k, 1e-3, 5, [this, comm] { err(comm); });
    if (often(0.1)) later(k, 1e-3, 5, [this, k] { give_up(k); });
    if (often(0.05)) return;
    later(k, 1e-5, 1e-2, [this, comm, most_s] {
      bench_.nccl.queue(comm);
      // It does what it does, whether we still wait for it or not.
      if (!often(0.1)) after(1e-4, most_s, [this, comm] { bench_.nccl.answer(comm); });
    });
  }

  void drop(Line& line) {
    for (const auto& [number, ends] : line.open)
      seen_.dropped += ends == 0;
    line.open.clear();
    ++line.life;
    line.edge = {};
  }
  void give_up(size_t k) {
    drop(lines_[k]);
    bench_.rewrite();
    after(1e-2, 1, [this, k] { connect(k); });
  }

  Seen seen() {
    seen_.is_lost = bench_.adversary.lost();
    if (!seen_.is_lost && bench_.received) bench_.rewrite();
    if (!world().run()) world().judge().find("stuck: it does not end");
    for (const FakeNccl::Comm& comm : bench_.nccl.comms) {
      seen_.stuck += static_cast<bool>(comm.ended);
      if (!comm.is_given_up) world().judge().find("NCCL: never given up");
    }
    seen_.findings = world().judge().findings();
    seen_.sites = world().sites;
    seen_.calls = bench_.adversary.calls;
    seen_.works = bench_.adversary.works;
    seen_.out = bench_.received ? bench_.out() : 0;
    seen_.edges = bench_.edges.edges();
    seen_.written_off = bench_.edges.written_off();
    return seen_;
  }

  const Setting setting_;
  Bench bench_;
  Line lines_[kEdges];
  Seen seen_;
  bool has_ended_ = false;
};

void check_end(const Seen& s) {
  CHECK(s.findings == kNothing);
  CHECK(s.twice == 0);
  CHECK(s.begun == s.arrived + s.broken + s.dropped);
  CHECK(s.out == 2 * s.written_off);
}

}  // namespace

TEST_CASE(
    "three edges to whose NCCL and peers anything happens: nothing is found over many seeds") {
  uint64_t begun = 0, arrived = 0, broken = 0, dropped = 0, written_off = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Seen s = Crowd({seed}).run();
    INFO("seed " << seed);
    check_end(s);
    CHECK(s.edges == s.stuck);
    begun += s.begun;
    arrived += s.arrived;
    broken += s.broken;
    dropped += s.dropped;
    written_off += s.written_off;
  }
  INFO(begun << " begun, " << arrived << " arrived, " << broken << " broken, " << dropped
             << " dropped, " << written_off << " written off");
  CHECK(arrived > 2000);
  CHECK(broken > 1000);
  CHECK(dropped > 300);
  CHECK(written_off > 100);
}

TEST_CASE("three edges that nothing happens to exchange all that they should") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Seen s = Crowd({.seed = seed, .is_calm = true}).run();
    INFO("seed " << seed);
    check_end(s);
    CHECK(s.arrived == Crowd::kEdges * Crowd::kExchanges);
    CHECK(s.edges == 0);
  }
}

TEST_CASE("each line of an edge that waits, records or is told is found when it is left out") {
  std::map<AdverseWorld::Site, uint64_t> sites;
  for (const uint64_t seed : {1, 2, 3, 4, 5})
    sites.merge(Crowd({seed}).run().sites);
  CHECK(sites.size() == 11);
  for (const auto& [site, calls] : sites) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed)
      found += !Crowd({seed, site}).run().findings.empty();
    INFO(site.first << " at " << site.second << ", called " << calls << " times, found in " << found
                    << " of 40 runs");
    CHECK(found >= 3);
  }
}

TEST_CASE(
    "each call and each piece of work of the device fails: every exchange still has one end") {
  const Seen whole = Crowd({3}).run();
  REQUIRE(whole.calls > 100);
  REQUIRE(whole.works > 30);
  uint64_t lost = 0;
  for (uint64_t k = 1; k <= whole.calls + whole.works; ++k) {
    Setting s{k % 7 + 1};
    (k <= whole.calls ? s.fail_call : s.fail_work) = k <= whole.calls ? k : k - whole.calls;
    const Seen seen = Crowd(s).run();
    INFO("call " << s.fail_call << ", work " << s.fail_work << ", seed " << s.seed);
    check_end(seen);
    lost += seen.is_lost;
  }
  CHECK(lost > (whole.calls + whole.works) / 2);
}
