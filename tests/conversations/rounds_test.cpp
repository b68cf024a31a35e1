// Rounds: each rank combines its neighbours' messages of its own phase, whatever the links do and
// however few buffers there are.
#include "actors/conversations/rounds.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <variant>

#include "actors/transport/simulated.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/conversations/event_queue.hpp"
#include "topologies/topology.hpp"

using namespace grapevine;

namespace {

struct TalkSettings {
  std::string graph = "ring";
  int ranks = 6, phases = 1;
  bool one_peer = false;
  size_t buffers = 0;  // of all ranks together
  uint64_t seed = 1;
  double late_s = 0;  // a rank begins its next step within this time
  double empty = 0;   // probability that no buffer is left
  std::vector<LinkFault> faults;
};

/// Messages that say who has written them, in which phase, counted over all steps.
class Talk {
 public:
  explicit Talk(const TalkSettings& s)
      : settings_(s),
        graph_(*make_topology(s.graph, s.ranks, 1)),
        random_(s.seed, 0, Purpose::test),
        transport_({0.01, 0.9, 0.05, 0}, s.faults, s.seed, s.ranks,
                   [this](double at, int to, Frame f) {
                     queue_.schedule(at, [this, to, f = std::move(f)] { deliver(to, f); });
                   }),
        pool_(2, DType::f64, s.buffers) {
    for (int rank = 0; rank < s.ranks; ++rank)
      nodes_.push_back(std::make_unique<Node>(options_of(rank)));
    for (int rank = 0; rank < s.ranks; ++rank) {
      event(rank, [&](Effects& out) { node(rank).conversation.view(0, view_of(rank), out); });
      begin(rank);
    }
  }

  /// Until every rank has taken so many steps. False: it came to a stop before.
  bool run(uint64_t steps) {
    steps_ = steps;
    return queue_.run_until([&] {
      return std::ranges::all_of(
          nodes_, [&](const auto& node) { return node->conversation.counts().applied >= steps; });
    });
  }

  uint64_t wrong() const { return wrong_; }      // messages combined that are others, or none
  uint64_t refused() const { return refused_; }  // that found no buffer
  uint64_t errors() const {
    uint64_t errors = 0;
    for (const auto& node : nodes_)
      errors += node->conversation.counts().protocol_errors;
    return errors;
  }

 private:
  struct Node {
    explicit Node(const RoundsOptions& options) : conversation(options) {}
    Rounds conversation;
    uint64_t number = 0;  // of the phase
    test::Timers timers;
  };

  Node& node(int rank) { return *nodes_[static_cast<size_t>(rank)]; }

  RoundsOptions options_of(int rank) const {
    RoundsOptions options;
    options.rank = rank;
    options.phases = settings_.phases;
    if (settings_.one_peer) {
      options.partners = [phases = settings_.phases](int place, int ranks, uint64_t phase) {
        return one_peer(place, ranks, static_cast<int64_t>(phase) / phases,
                        static_cast<int>(phase) % phases, phases);
      };
      options.most_behind = [](int ranks) { return most_behind(ranks, PeerSchedule::paper); };
    }
    options.patience_s = 0.5;
    return options;
  }

  View view_of(int rank) const {
    View view;
    view.epoch = 1;
    for (int other = 0; other < settings_.ranks; ++other)
      view.ring.push_back({other, 0, 0, 0});
    for (const auto& [peer, rate] : graph_.neighbours(rank))
      view.edges.push_back({peer, 0, 0, 0});
    return view;
  }

  void begin(int rank) {
    queue_.schedule(queue_.now() + settings_.late_s * random_.uniform(),
                    [this, rank] { write(rank); });
  }

  void write(int rank) {
    Messages messages{1, phase_of(node(rank)), {}};
    const auto add = [&](int peer) {
      Payload payload;
      if (settings_.empty == 0 || random_.uniform() >= settings_.empty)
        payload.lease = pool_.take();
      refused_ += !payload;
      if (payload) {
        auto* const said = payload.writable(DType::f64, 2).as<double>();
        said[0] = rank;
        said[1] = static_cast<double>(node(rank).number);
      }
      messages.outgoing.push_back({peer, payload});
    };
    if (settings_.one_peer) {
      add(-1);
    } else {
      for (const auto& [peer, rate] : graph_.neighbours(rank))
        add(peer);
    }
    event(rank,
          [&](Effects& out) { node(rank).conversation.step_ready(queue_.now(), messages, out); });
  }

  int phase_of(const Node& node) const {
    return static_cast<int>(node.number % static_cast<uint64_t>(settings_.phases));
  }

  void deliver(int to, const Frame& frame) {
    const Payload payload = payload_of(frame.header, frame.payload);
    event(to, [&](Effects& out) {
      node(to).conversation.frame(queue_.now(), frame.header, payload, out);
    });
  }

  void event(int rank, const std::function<void(Effects&)>& call) {
    Effects out;
    call(out);
    for (const Send& s : out.sends)
      transport_.send(queue_.now(), s.header, s.payload.lease);
    for (const Arm& a : out.arms) {
      node(rank).timers.arm(queue_, a, [this, rank, id = a.timer] {
        event(rank, [&](Effects& more) { node(rank).conversation.timer(queue_.now(), id, more); });
      });
    }
    for (const auto& request : out.requests) {  // answers of another actor's: later
      if (std::holds_alternative<Write>(request))
        queue_.schedule(queue_.now(), [this, rank] { write(rank); });
      if (const auto* const apply = std::get_if<Apply>(&request))
        queue_.schedule(queue_.now(), [this, rank, combine = *apply] { carry_out(rank, combine); });
    }
  }

  void carry_out(int rank, const Apply& apply) {
    Node& here = node(rank);
    for (size_t k = 0; k < apply.incoming.size(); ++k) {
      const Payload& in = apply.incoming[k];
      const double* const said = in ? in.vec().as<double>() : nullptr;
      wrong_ += said == nullptr || said[1] != static_cast<double>(here.number);
      if (said != nullptr && !settings_.one_peer)
        wrong_ += said[0] != graph_.neighbours(rank)[k].rank;
    }
    ++here.number;
    if (phase_of(here) > 0) return write(rank);
    if (here.conversation.counts().applied < steps_) begin(rank);
  }

  TalkSettings settings_;
  Topology graph_;
  Random random_;
  SimulatedTransport transport_;
  SnapshotPool pool_;
  std::vector<std::unique_ptr<Node>> nodes_;
  test::EventQueue queue_;
  uint64_t steps_ = 0, wrong_ = 0, refused_ = 0;
};

LinkFault loss(double probability) {
  LinkFault f;
  f.kind = LinkFaultKind::loss;
  f.probability = probability;
  return f;
}

}  // namespace

TEST_CASE("of each edge and direction the messages of two phases are out, and none before them") {
  for (const char* graph : {"ring", "complete", "star"}) {
    for (int phases = 1; phases <= 2; ++phases) {
      INFO(graph << ", " << phases << " phases");
      TalkSettings s;
      s.graph = graph;
      s.phases = phases;
      s.late_s = 5;
      s.buffers = 4 * make_topology(graph, s.ranks, 1)->edges().size();
      Talk talk(s);
      REQUIRE(talk.run(40));
      CHECK(talk.refused() == 0u);
      CHECK(talk.wrong() == 0u);
      CHECK(talk.errors() == 0u);
    }
  }
}

TEST_CASE("along the schedule so many are out as it takes to hear of all, and one more") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    INFO(ranks << " ranks");
    TalkSettings s;
    s.ranks = ranks;
    s.one_peer = true;
    s.late_s = 5;
    s.buffers = static_cast<size_t>(ranks * (most_behind(ranks, PeerSchedule::paper) + 1));
    Talk talk(s);
    REQUIRE(talk.run(60));
    CHECK(talk.refused() == 0u);
    CHECK(talk.wrong() == 0u);
  }
}

TEST_CASE("while no buffer is left a phase is written again later, and no message is lost") {
  uint64_t refused = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    TalkSettings s;
    s.ranks = 3 + static_cast<int>(seed % 6);
    s.graph = seed % 2 == 0 ? "ring" : "complete";
    s.phases = 1 + static_cast<int>(seed % 3);
    s.one_peer = seed % 5 == 0;
    s.seed = seed;
    s.late_s = seed % 4 == 0 ? 5 : 0;
    const size_t edges = make_topology(s.graph, s.ranks, 1)->edges().size();
    s.buffers = 4 * edges;
    if (s.one_peer)
      s.buffers = static_cast<size_t>(s.ranks * (most_behind(s.ranks, PeerSchedule::paper) + 1));
    s.empty = 0.3;
    if (seed % 2 == 0) s.faults = {loss(0.3)};
    INFO(s.graph << " of " << s.ranks << ", seed " << seed);
    Talk talk(s);
    REQUIRE(talk.run(30));
    CHECK(talk.wrong() == 0u);
    CHECK(talk.errors() == 0u);
    refused += talk.refused();
  }
  CHECK(refused > 0);
}

TEST_CASE("a round that an ending rank has declined it does without the other's message, too") {
  RoundsOptions options;
  options.rank = 0;
  options.patience_s = 0.5;
  View view;
  view.epoch = 1;
  view.edges.push_back({1, 0, 0, 0});
  SnapshotPool pool(2, DType::f64, 4);
  const auto payload = [&] {
    Payload made;
    made.lease = pool.take();
    made.writable(DType::f64, 2);
    return made;
  };
  FrameHeader heard;
  heard.from = 1;
  heard.epoch = 1;
  for (const bool came_before : {false, true}) {
    Effects out;
    Rounds ending(options);
    ending.view(0, view, out);
    ending.drain(0, out);
    heard.kind = FrameKind::message;
    if (came_before) ending.frame(0, heard, payload(), out);
    heard.kind = FrameKind::ask;
    ending.frame(0, heard, {}, out);
    REQUIRE(out.sends.size() == 1);
    CHECK(out.sends[0].header.reason == DeclineReason::gone);
    ending.step_ready(0, Messages{1, 0, {{1, payload(), {}}}}, out);  // was under way
    heard.kind = FrameKind::message;
    if (!came_before) ending.frame(0, heard, payload(), out);
    const auto is_combine = [](const auto& r) { return std::holds_alternative<Apply>(r); };
    const auto combined = std::ranges::find_if(out.requests, is_combine);
    REQUIRE(combined != out.requests.end());
    const Apply& apply = std::get<Apply>(*combined);
    REQUIRE(apply.incoming.size() == 1);
    CHECK_FALSE(apply.incoming[0]);
  }
}

// With a schedule, a rank asks another one for its message than the one that it sends to.
TEST_CASE("ranks that have finished keep no message of one that goes on, and it never stops") {
  constexpr int kRanks = 4;
  constexpr uint64_t kMore = 600;  // steps that one rank takes after the others have finished
  View view;
  view.epoch = 1;
  for (int rank = 0; rank < kRanks; ++rank)
    view.ring.push_back({rank, 0, 0, 0});
  std::vector<Rounds> all;
  Effects out;
  for (int rank = 0; rank < kRanks; ++rank) {
    RoundsOptions options;
    options.rank = rank;
    options.patience_s = 0.5;
    options.partners = [](int place, int ranks, uint64_t phase) {
      return one_peer(place, ranks, static_cast<int64_t>(phase), 0, 1);
    };
    options.most_behind = [](int ranks) { return most_behind(ranks, PeerSchedule::paper); };
    all.emplace_back(options).view(0, view, out);
    if (rank > 0) all.back().drain(0, out);
  }
  SnapshotPool pool(2, DType::f64, 16);
  double now = 0;
  const std::function<void(const Effects&)> carry = [&](const Effects& effects) {
    for (const Send& s : effects.sends) {
      Effects more;
      all[s.header.to].frame(now, s.header, s.payload, more);
      carry(more);
    }
  };
  for (uint64_t step = 0; step < kMore; ++step) {
    Payload payload;
    payload.lease = pool.take();
    REQUIRE(payload);
    payload.writable(DType::f64, 2);
    Effects begun, late;
    all[0].step_ready(now, Messages{1, 0, {{-1, std::move(payload), {}}}}, begun);
    carry(begun);
    now += 1;
    all[0].timer(now, 0, late);  // the message is late: it asks
    carry(late);
    REQUIRE(all[0].counts().applied == step + 1);
  }
}
