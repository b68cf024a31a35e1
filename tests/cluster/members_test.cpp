// The reaction of whole nodes to the news of membership, and to a member that lies.
//
//   GRAPEVINE_SEEDS=10000 bin/cluster_test "whatever a member*"   more seeds than the usual 200
//   GRAPEVINE_SEED=17     bin/cluster_test "whatever a member*"   that one alone, with its log
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "actors/algorithms/method_registry.hpp"
#include "actors/cluster/needed_links.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/cluster/recorded_jumps.hpp"
#include "tests/cluster/simulated_cluster.hpp"
#include "tests/messages/malicious_member.hpp"
#include "tests/seeds.hpp"
#include "tests/signing.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr int kEvilHost = 9;

struct Way {  // of training
  const char* method = "ad_psgd";
  const char* topology = "complete";
};

void found(SimulatedCluster& cluster, int hosts, uint64_t seed, Way way = {}) {
  Settings settings = endless(way.method, way.topology, 2 * hosts, 2);
  settings.seed = seed;
  found(cluster, hosts, settings);
}

NodeStatus status_of(SimulatedCluster& cluster, int process) {
  cluster.at(process).status_at_s = -1;
  cluster.ask(process, ConsoleVerb::status);
  cluster.run(cluster.now() + 0.25);
  REQUIRE(cluster.at(process).status_at_s >= 0);
  return cluster.at(process).status;
}

uint64_t applied(const NodeStatus& status) {
  uint64_t sum = 0;
  for (const auto& c : status.ranks.communicators)
    for (const auto& edge : c.edges)
      sum += edge.applied;
  return sum;
}

/// A vector that the enemy has sent in an exchange: the other's own and something, or anything.
struct Lie {
  int from = 0, to = 0;
  uint64_t number = 0;
  std::vector<double> sent;
  bool is_far = false;  // beyond what any rank expects of another
};
constexpr double kFar = 1e6;

/// A process that has links, a name and a place among the members, and no actors: it says what it
/// likes.
class Evil {
 public:
  /// A meek one has no rank and tells no news of members: it costs nobody an exchange, so the sum
  /// of the honest ranks stays exact, whatever else it says. One that may stop the run, as every
  /// member may, says so when it likes.
  Evil(SimulatedCluster& cluster, int honest, uint64_t seed, const Hello& like, bool meek,
       bool may_stop = false, const std::string& name = "n109")
      : cluster_(cluster),
        run_(run_of(like)),
        key_(key_of(name)),
        liar_(
            seed, name, names(honest),
            [name](const std::string& as) { return signing_of(key_of(as)); }, run_),
        hosts_(honest),
        meek_(meek),
        may_stop_(may_stop) {
    LinksOptions options;
    options.self = like;
    options.self.node = name;
    options.own_key = key_;
    LinkEvents events;
    events.up = [this](const Hello& peer) { up_.insert(peer.node); };
    events.down = [this](const std::string& node, uint32_t, const std::string&) {
      up_.erase(node);
    };
    events.control = [this](const std::string& node, const ControlMessage& m) { hear(node, m); };
    events.frame = [this](const std::string& node, const Frame& frame) {
      liar_.hear(frame.header);
      if (trades_) answer(node, frame);
    };
    events.dial_failed = [](const std::string&, const std::string&, bool) {};
    events.turned_away = [](const std::string&, const std::string&) {};
    events.contested = [](const std::string&) {};
    events.console = [](uint64_t, const ConsoleRequest&) {};
    events.console_gone = [](uint64_t) {};
    events.bulk_ended = [](const std::string&, uint64_t, const std::string&) {};
    events.buffer = [](const FrameHeader& h) {
      return SnapshotPool(payload_bytes(h), DType::bytes, 1).take();
    };
    events.parcel = [](const std::string&, const Parcel&, const Payload&) {};
    events.parcel_buffer = [](const std::string&, const Parcel&) { return Lease(); };
    links_ =
        cluster.network().open(kEvilHost, SimulatedCluster::address_of(kEvilHost), options, events);
    self_.node = name;
    self_.incarnation = 1;
    self_.key = key_.public_key();
    self_.address = SimulatedCluster::address_of(kEvilHost);
    self_.first_rank = static_cast<uint32_t>(2 * honest);
    self_.ranks = meek ? 0 : 1;
    redial();
  }

  void redial() {
    for (int h = 0; h < hosts_; ++h)
      links_->dial(SimulatedCluster::address_of(h));
  }
  /// Draws a few messages for some of those that it has a link with. All of it as drawn, but that
  /// it answers probes and says truly who it is, most of the time: else nobody would listen.
  void speak() {
    if (up_.empty()) return redial();
    for (uint32_t k = 1 + liar_.random().below(6); k > 0; --k) {
      const std::string to =
          *std::next(up_.begin(), liar_.random().below(static_cast<uint32_t>(up_.size())));
      if (liar_.random().below(4) == 0) {
        MembershipPacket truth;
        truth.kind = MembershipPacket::Kind::sync_reply;
        truth.news.push_back(signed_by(key_, self_, run_));
        links_->send(to, truth);
      } else if (liar_.random().below(4) == 0) {
        liar_.random().below(2) == 0 ? send_payload(to) : send_parcel(to);
      } else {
        ControlMessage message = liar_.message();
        auto* packet = std::get_if<MembershipPacket>(&message);
        if (packet != nullptr && meek_) packet->news.clear();
        if (packet != nullptr && !may_stop_)
          std::erase_if(packet->news, [](const Member& m) { return m.stops; });
        // The simulated links have no handshake: all but a token ends a link that stands.
        if (!MaliciousMember::is_of_the_links(message))
          links_->send(to, message);
        else if (!std::holds_alternative<BulkToken>(message))
          links_->close(to);
      }
      ++said_;
    }
  }
  /// Tells of nodes that nobody can reach.
  void invent(int nodes, int ranks) {
    std::vector<Member> news;
    for (int k = 0; k < nodes; ++k) {
      Member m = self_;
      m.node = "z" + std::to_string(k);
      m.address = SimulatedCluster::address_of(100 + k);
      m.first_rank = static_cast<uint32_t>(2 * hosts_ + ranks * k);
      m.ranks = static_cast<uint32_t>(ranks);
      m.ready = true;
      news.push_back(signed_by_itself(m, run_));
    }
    tell(news);
  }
  /// Ranks that answer nobody: its own, or those of others.
  void claim(int ranks, std::optional<uint32_t> first = std::nullopt) {
    self_.first_rank = first.value_or(self_.first_rank);
    self_.ranks = static_cast<uint32_t>(ranks);
    self_.ready = true;
    if (!first) ++self_.incarnation;
    tell({signed_by(key_, self_, run_)});
  }
  /// Takes part in exchanges as the protocol has it, but for what it sends: the other's own vector,
  /// somewhere else.
  void trade() {
    trades_ = true;
    claim(1, self_.first_rank);
  }
  const std::vector<Lie>& lies() const { return lies_; }
  uint64_t said() const { return said_; }
  double uniform() { return liar_.random().uniform(); }

 private:
  static std::vector<std::string> names(int honest) {
    std::vector<std::string> all;
    for (int h = 0; h < honest; ++h)
      all.push_back(SimulatedCluster::name_of(h));
    return all;
  }

  void tell(const std::vector<Member>& news) {
    for (size_t from = 0; from < news.size(); from += kMaxNews) {
      MembershipPacket packet;
      packet.kind = MembershipPacket::Kind::sync_reply;
      for (size_t k = from; k < std::min(news.size(), from + kMaxNews); ++k)
        packet.news.push_back(news[k]);
      for (const std::string& node : up_)
        links_->send(node, packet);
    }
  }

  void hear(const std::string& node, const ControlMessage& m) {
    if (const auto* header = std::get_if<FrameHeader>(&m)) return liar_.hear(*header);
    const auto* packet = std::get_if<MembershipPacket>(&m);
    if (packet == nullptr) return;
    liar_.hear(*packet);
    outlive(self_, *packet, key_.signing(), run_);
    if (packet->kind != MembershipPacket::Kind::ping) return;
    const MembershipPacket ack = ack_of(*packet);
    cluster_.network().at(cluster_.now(), [this, node, ack] { links_->send(node, ack); });
  }

  void answer(const std::string& node, const Frame& frame) {
    FrameHeader h = frame.header;
    std::swap(h.from, h.to);
    std::swap(h.from_incarnation, h.to_incarnation);
    h.count = 0;
    Payload payload;
    if (h.kind == FrameKind::offer) {
      h.kind = FrameKind::accept;
    } else if (h.kind == FrameKind::data && h.dtype == DType::f64) {
      const ConstVec theirs(frame.payload.vec().data, frame.header.count, h.dtype);
      payload = {SnapshotPool(theirs.size, h.dtype, 1).take(), h.dtype, theirs.size, 0};
      const Vec lies(payload.lease.writable().data, theirs.size, h.dtype);
      Lie lie{static_cast<int>(h.from), static_cast<int>(h.to), h.number, {}, false};
      lie.is_far = liar_.random().below(8) == 0;
      for (size_t k = 0; k < theirs.size; ++k) {
        const double off = (lie.is_far ? kFar : 0.1) * liar_.random().normal();
        lie.sent.push_back(lies.as<double>()[k] = theirs.as<double>()[k] + off);
      }
      lies_.push_back(std::move(lie));
      h.count = theirs.size;
      h.bound = 1e9;
      h.allowance = 1e9;
    } else {
      return;
    }
    cluster_.network().at(cluster_.now(), [this, node, h, payload]() mutable {
      links_->send_frame(node, h, payload);
      h.kind = FrameKind::ack;
      h.count = 0;
      if (payload) links_->send_frame(node, h, {});
    });
  }

  // Of as many numbers as there should be, or not.
  void send_payload(const std::string& to) {
    FrameHeader h = liar_.header();
    if (!carries_payload(h.kind)) return;
    if (liar_.random().below(2) == 0) h.count = 1 + liar_.random().below(64);
    if (h.count == 0) h.count = 6, h.dtype = DType::f64;
    SnapshotPool pool(h.count, h.dtype, 1);
    Payload payload{pool.take(), h.dtype, h.count, 0};
    liar_.fill(payload.lease.writable());
    if (h.kind == FrameKind::data && h.dtype == DType::f64) {
      const auto* sent = payload.vec().as<double>();
      lies_.push_back({static_cast<int>(h.from), static_cast<int>(h.to), h.number,
                       std::vector<double>(sent, sent + h.count), false});
    }
    links_->send_frame(to, h, payload);
  }

  void send_parcel(const std::string& to) {
    const Parcel parcel = liar_.parcel();
    SnapshotPool pool(parcel.count, parcel.dtype, 1);
    Payload payload{pool.take(), parcel.dtype, parcel.count, 0};
    liar_.fill(payload.lease.writable());
    links_->send_parcel(to, parcel, payload);
  }

  SimulatedCluster& cluster_;
  uint64_t run_;
  NodeKey key_;
  MaliciousMember liar_;
  int hosts_;
  bool meek_, may_stop_, trades_ = false;
  Member self_;
  std::set<std::string> up_;
  std::shared_ptr<Links> links_;
  std::vector<Lie> lies_;
  uint64_t said_ = 0;
};

}  // namespace

TEST_CASE("with one of six pairs cut a stop still reaches everybody, and all end") {
  for (const bool told_at_the_cut : {true, false}) {
    SimulatedCluster cluster({}, 1);
    found(cluster, 4, 1);
    cluster.network().cut(0, 1);
    cluster.network().cut(1, 0);
    cluster.run(10);
    for (int p = 0; p < 4; ++p)
      CHECK(status_of(cluster, p).members.size() == 4);
    const double asked_s = cluster.now();
    cluster.ask(told_at_the_cut ? 0 : 2, ConsoleVerb::stop);
    const auto all_end = [&] {
      for (int p = 0; p < 4; ++p)
        if (!cluster.at(p).ending) return false;
      return true;
    };
    while (!all_end() && cluster.now() < asked_s + 40)
      cluster.run(cluster.now() + 0.25);
    for (int p = 0; p < 4; ++p) {
      INFO(cluster.at(p).name);
      REQUIRE(cluster.at(p).ending);
      CHECK_FALSE(cluster.at(p).ending->failure);
    }
  }
}

TEST_CASE(
    "a rank that its own node gives up leaves every graph, and its node stays in step with all") {
  SimulatedCluster cluster({}, 2);
  found(cluster, 3, 2);
  const auto ranks_everywhere = [&](int ranks) {
    const uint64_t epoch = status_of(cluster, 0).epoch.epoch;
    for (int p = 0; p < 3; ++p) {
      const NodeStatus s = status_of(cluster, p);
      INFO(s.node);
      CHECK(s.epoch.ranks == ranks);
      CHECK(s.epoch.epoch == epoch);
    }
  };
  ranks_everywhere(6);
  const NodeActor& node = cluster.at(1).node.run->node;
  caf::anon_send(node, KillRank{2});
  cluster.run(cluster.now() + 2);
  ranks_everywhere(5);
  const uint64_t before = applied(status_of(cluster, 1));
  cluster.run(cluster.now() + 3);
  CHECK(applied(status_of(cluster, 1)) > before);  // its other rank exchanges with the others
  caf::anon_send(node, RestartRank{2});
  cluster.run(cluster.now() + 2);
  ranks_everywhere(6);
}

TEST_CASE("a node that has lost more ranks than its record can name leaves, and the others go on") {
  constexpr int kHere = 68, kOther = 2;
  SimulatedCluster cluster({}, 5);
  const auto settings = [&](int here) {
    Settings s = endless("ad_psgd", "ring", kHere + kOther, here);
    s.gradient_s = 1;
    return s;
  };
  cluster.start(0, settings(kOther), 0, kHere + kOther, {});
  cluster.start(1, settings(kHere), kOther, kHere + kOther, {0});
  cluster.run(4);
  const NodeActor node = cluster.at(1).node.run->node;
  const auto kill = [&](size_t from, size_t until) {
    for (size_t k = from; k < until; ++k)
      caf::anon_send(node, KillRank{kOther + static_cast<int>(k)});
    cluster.run(cluster.now() + 3);
  };
  kill(0, kMaxGone);
  CHECK_FALSE(cluster.at(1).ending);
  CHECK(status_of(cluster, 1).epoch.ranks == kHere + kOther - static_cast<int>(kMaxGone));
  CHECK(status_of(cluster, 0).epoch.ranks == kHere + kOther - static_cast<int>(kMaxGone));
  kill(kMaxGone, kMaxGone + 1);
  cluster.run(cluster.now() + 10);
  REQUIRE(cluster.at(1).ending);
  const NodeStatus left = status_of(cluster, 0);
  CHECK(left.epoch.ranks == kOther);
  for (const Member& m : left.members)
    if (m.node == cluster.at(1).name) CHECK(m.state == MemberState::left);
  const uint64_t before = applied(left);
  cluster.run(cluster.now() + 3);
  CHECK(applied(status_of(cluster, 0)) > before);
}

TEST_CASE("a graph in which a node would need more links than it may have is refused in a line") {
  SimulatedCluster cluster({}, 6);
  found(cluster, 2, endless("ad_psgd", "ring", 4, 2));
  Evil evil(cluster, 2, 6, cluster.at(0).node.options.self, true);
  cluster.run(cluster.now() + 1);
  const auto asked_for = [&](const std::string& topology) {
    const size_t before = cluster.answers().size();
    cluster.ask(0, ConsoleVerb::reconfigure, topology);
    cluster.run(cluster.now() + 1);
    REQUIRE(cluster.answers().size() == before + 1);
    return cluster.answers().back();
  };
  evil.invent(kNeighboursAtMost - 1, 1);  // and one honest one: as many as may be
  cluster.run(cluster.now() + 1);
  CHECK_THAT(asked_for("complete"), Catch::StartsWith("asked for complete"));
  evil.invent(kNeighboursAtMost, 1);
  cluster.run(cluster.now() + 1);
  CHECK_THAT(asked_for("complete"),
             Catch::StartsWith("error: topology complete") &&
                 Catch::Contains("a node would need links to 121 others, accepted: at most 120"));
  CHECK_THAT(asked_for("ring"), Catch::StartsWith("asked for ring"));
}

TEST_CASE("what ranks have counted before they took other numbers is in their node's counts") {
  SimulatedCluster cluster({}, 7);
  found(cluster, 3, 7);
  // Of two in one incarnation the lower name keeps what both have.
  Evil evil(cluster, 3, 7, cluster.at(0).node.options.self, false, false, "a");
  cluster.run(cluster.now() + 5);
  const auto counted = [&] {
    const NodeStatus s = status_of(cluster, 1);
    Counts all = s.ranks.carried;
    for (const CommunicatorReport& c : s.ranks.communicators)
      all += c.counts;
    return all;
  };
  const Counts before = counted();
  REQUIRE(before.applied > 10u);
  CHECK(status_of(cluster, 1).ranks.carried.applied == 0u);
  evil.claim(2, 2);
  for (int k = 0; k < 40 && status_of(cluster, 1).ranks.carried.applied == 0; ++k)
    cluster.run(cluster.now() + 0.25);
  const NodeStatus moved = status_of(cluster, 1);
  for (const CommunicatorReport& c : moved.ranks.communicators)
    CHECK(c.rank >= 6);
  CHECK(moved.ranks.carried.applied >= before.applied);
  CHECK(moved.ranks.carried.opened >= before.opened);
  cluster.run(cluster.now() + 3);
  CHECK(counted().applied > moved.ranks.carried.applied);
  cluster.ask(0, ConsoleVerb::stop);
  for (int k = 0; k < 240 && !cluster.at(1).outcome; ++k)
    cluster.run(cluster.now() + 0.25);
  REQUIRE(cluster.at(1).outcome);
  CHECK(cluster.at(1).outcome->counts.applied > moved.ranks.carried.applied);
}

namespace {

constexpr int kFew = 3, kSilent = 200;  // nodes; ranks

/// The work of three nodes in five seconds, with or without ranks that never answer.
struct Work {
  uint64_t exchanges = 0;
  double longest_offer_s = 0;  // that a rank waited for
};

Work done_beside(const std::function<void(Evil&)>& lie) {
  SimulatedCluster cluster({}, 3);
  found(cluster, kFew, 3);
  Evil evil(cluster, kFew, 3, cluster.at(0).node.options.self, true);
  cluster.run(cluster.now() + 1);
  if (lie) lie(evil);
  cluster.run(cluster.now() + 1);
  Work done;
  for (const bool after : {false, true}) {
    for (int p = 0; p < kFew; ++p) {
      const NodeStatus s = status_of(cluster, p);
      CHECK(s.epoch.ranks == 2 * kFew + (lie ? kSilent : 0));
      done.exchanges += after ? applied(s) : -applied(s);
      for (const CommunicatorReport& c : s.ranks.communicators)
        done.longest_offer_s = std::max(done.longest_offer_s, c.counts.longest_offer_s);
    }
    if (!after) cluster.run(cluster.now() + 5);
  }
  return done;
}

}  // namespace

TEST_CASE("an offer to a rank that nobody has a link to is not waited for, and costs no exchange") {
  const Work alone = done_beside({});
  const Work beside = done_beside([](Evil& evil) { evil.invent(kSilent / 5, 5); });
  INFO(beside.exchanges << " beside " << alone.exchanges);
  CHECK(static_cast<double>(beside.exchanges) >= 0.9 * static_cast<double>(alone.exchanges));
  CHECK(beside.longest_offer_s <= 2 * alone.longest_offer_s);
}

TEST_CASE("many ranks that answer nobody cost the others few of the exchanges among themselves") {
  const Work alone = done_beside({});
  const Work beside = done_beside([](Evil& evil) { evil.claim(kSilent); });
  INFO(beside.exchanges << " beside " << alone.exchanges);
  CHECK(static_cast<double>(beside.exchanges) >= 0.75 * static_cast<double>(alone.exchanges));
}

namespace {

constexpr int kHonest = 3;  // nodes
constexpr double kLies_s = 8, kOneView_s = 60, kEnd_s = 60;
constexpr double kRounding = 1e-11;   // of what has been moved
constexpr double kBytesAtMost = 1e9;  // of this process, all seeds together

constexpr Way kWays[] = {{"ad_psgd", "complete"}, {"a2cid2", "ring"},     {"d_psgd", "ring"},
                         {"a2cid2", "complete"},  {"all_reduce", "ring"}, {"ad_psgd", "chain"},
                         {"sgp", "complete"},     {"relaysgd", "chain"}};

Settings trained(const Way& way, uint64_t seed) {
  const bool pairwise = method_named(way.method).pattern == Pattern::pairwise;
  Settings s = endless(pairwise ? recorded(way.method) : way.method, way.topology, 2 * kHonest, 2);
  s.seed = seed;
  return s;
}

/// The exchanges of the honest ranks, computed from their jumps.
struct Exchanged {
  size_t both = 0;       // that both ends have applied
  double is_uneven = 0;  // what one end gained there beside what the other lost, relatively
  std::vector<const RecordedJump*> one_end;  // with no other end among the honest, or a broken one
  std::vector<double> sum;                   // of those: what they have moved the honest sum by
  std::vector<double> magnitude;
};

/// The sum of the changes at the two ends of an exchange, which must be 0.
double unevenness(const RecordedJump& here, const RecordedJump& there) {
  double most = 0;
  for (size_t k = 0; k < here.moved.size(); ++k)
    most = std::max(most, std::abs(here.moved[k] + there.moved[k]));
  return most;
}

/// x + x~ went a share of (1/2 + alpha~) of the way to what was sent: the whole if that was near.
bool is_made_by(const RecordedJump& jump, const Lie& lie) {
  if (lie.to != jump.rank || lie.from != jump.exchange.peer || lie.number != jump.exchange.number ||
      !std::ranges::equal(lie.sent, jump.received))
    return false;
  const double part = jump.moved[0] / (jump.received[0] - jump.sent[0]);
  double rest = 0, size = 0;
  for (size_t k = 0; k < lie.sent.size(); ++k) {
    const double off = jump.received[k] - jump.sent[k];
    rest = std::max(rest, std::abs(jump.moved[k] - part * off));
    size = std::max(size, std::abs(off));
  }
  return part > 0 && part < 50 && rest < 1e-9 * (1 + size);
}

/// The lie that a jump was made by, or none.
const Lie* source(const RecordedJump& jump, const std::vector<Lie>& lies) {
  const auto lie = std::ranges::find_if(lies, [&](const Lie& l) { return is_made_by(jump, l); });
  return lie != lies.end() ? &*lie : nullptr;
}

/// An edge with the enemy may begin anew in the same incarnations, and its numbers with it. Ranks
/// that one node has left another may take, in the incarnation that the first had: an exchange is
/// named by its number and by the two rules that it joined. Of the jumps of one number and edge
/// those belong together that fit best, unless one of them is a lie's; what is left has no other
/// end.
Exchanged exchanged(const std::vector<RecordedJump>& jumps, const std::vector<Lie>& lies) {
  using End = std::tuple<int, int, uint32_t, uint32_t, uint64_t>;
  using Jumps = std::vector<const RecordedJump*>;
  std::map<End, Jumps> ends;
  Exchanged all;
  all.sum = all.magnitude = std::vector<double>(6);
  for (const RecordedJump& jump : jumps) {
    const ExchangeKey& e = jump.exchange;
    ends[{jump.rank, e.peer, e.incarnation, e.peer_incarnation, e.number}].push_back(&jump);
    for (size_t k = 0; k < 6; ++k)
      all.magnitude[k] += std::abs(jump.moved[k]);
  }
  // The scale of rounding errors.
  const double scale = 1 + *std::ranges::max_element(all.magnitude);
  for (auto& [end, here] : ends) {
    const auto [rank, peer, incarnation, peer_incarnation, number] = end;
    const auto found = ends.find(End(peer, rank, peer_incarnation, incarnation, number));
    Jumps none;
    Jumps& there = found != ends.end() ? found->second : none;
    std::set<std::pair<uint64_t, uint64_t>> joined;
    while (!here.empty() && !there.empty()) {
      size_t first = 0, second = 0;
      double least = kNever;
      for (size_t i = 0; i < here.size(); ++i) {
        for (size_t j = 0; j < there.size(); ++j) {
          const double off = unevenness(*here[i], *there[j]);
          if (off < least) least = off, first = i, second = j;
        }
      }
      const bool fits = least < kRounding * scale;
      if (!fits && (source(*here[first], lies) || source(*there[second], lies))) break;
      all.is_uneven = std::max(all.is_uneven, least / scale);
      CHECK(joined.emplace(here[first]->rule, there[second]->rule).second);  // exactly once
      here.erase(here.begin() + static_cast<std::ptrdiff_t>(first));
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(second));
    }
    all.both += 2 * joined.size();
  }
  for (const auto& [end, left] : ends) {
    for (const RecordedJump* jump : left) {
      all.one_end.push_back(jump);
      for (size_t k = 0; k < 6; ++k)
        all.sum[k] += jump->moved[k];
    }
  }
  return all;
}

/// Three honest nodes, a liar among them or none, and what they did meanwhile.
class Siege {
 public:
  Siege(uint64_t seed, bool besieged)
      : cluster_({}, seed),
        way_(kWays[seed / 4 % std::size(kWays)]),
        settings_(trained(way_, seed)) {
    take_recorded_jumps();
    found(cluster_, kHonest, settings_);
    look();
    exchanges_ = 0;
    std::optional<Evil> evil;
    const Hello& like = cluster_.at(0).node.options.self;
    if (besieged) evil.emplace(cluster_, kHonest, seed, like, seed % 4 == 0, seed % 20 == 1);
    const bool trades = besieged && seed % 4 == 2;
    if (trades) cluster_.run(cluster_.now() + 0.5);  // it has links then
    if (trades) evil->trade();
    const double until_s = cluster_.now() + kLies_s;
    for (double look_at_s = 0; cluster_.now() < until_s;) {
      cluster_.run(cluster_.now() + (evil ? 0.1 * evil->uniform() : 0.1));
      if (evil) evil->speak();
      if (ending()) break;  // it has said stop
      if (cluster_.now() < look_at_s) continue;
      look();
      look_at_s = cluster_.now() + 0.5;
    }
    if (!ending()) look();
    if (evil) said_ = evil->said();
    if (evil) lies_ = evil->lies();
  }

  bool pairwise() const { return method_named(way_.method).pattern == Pattern::pairwise; }
  const Way& way() const { return way_; }
  /// Stop has been said: some end, or will when all that were invented are dead.
  bool ending() {
    for (int p = 0; p < kHonest; ++p) {
      const auto& node = cluster_.at(p);
      const bool stops = std::ranges::any_of(node.lines, [](const std::string& line) {
        return line.find("the run is to stop") != std::string::npos;
      });
      if (stops || node.ending || node.outcome) return true;
    }
    return false;
  }

  /// Until all honest nodes have one view, one graph, and nobody else in it.
  std::string converge() {
    const double limit_s = cluster_.now() + kOneView_s;
    for (;;) {
      const std::string why = difference();
      if (why.empty() || cluster_.now() > limit_s) return why;
    }
  }

  /// The ranks take gradients and exchange, then all end.
  std::string end() {
    if (!ending()) {
      Progress before;
      for (int p = 0; p < kHonest; ++p)
        for (const CommunicatorReport& c : status_of(cluster_, p).ranks.communicators)
          before[c.rank] = c.counts.applied;
      cluster_.run(cluster_.now() + 3);
      for (int p = 0; p < kHonest; ++p)
        if (!exchanged(status_of(cluster_, p), before)) return "a node exchanges nothing";
      cluster_.ask(0, ConsoleVerb::stop);
    }
    const double limit_s = cluster_.now() + kEnd_s;
    while (cluster_.now() < limit_s && !all_ended())
      cluster_.run(cluster_.now() + 0.25);
    if (!all_ended()) return "not all end";
    for (int p = 0; p < kHonest; ++p)
      if (const auto& end = *cluster_.at(p).ending; end.failure)
        return cluster_.at(p).name + ": " + end.failure->message;
    return edges();
  }

  uint64_t exchanges() const { return exchanges_; }
  uint64_t said() const { return said_; }
  uint64_t refused() const { return refused_; }
  uint64_t most_incarnations() const { return *std::max_element(begun_.begin(), begun_.end()); }
  const std::vector<Lie>& lies() const { return lies_; }
  uint64_t broken() const { return broken_; }
  bool kept() const { return kept_; }
  /// Ranks have other numbers than they began with.
  bool moved() { return lines().find("its ranks were taken") != std::string::npos; }

  /// The honest ranks at their end beside what their gradients make of them.
  Account account() {
    Account all;
    for (int p = 0; p < kHonest; ++p)
      cluster_.add_up(p, settings_, all);
    CHECK(all.unseen == "");
    CHECK(all.ranks == 2 * kHonest);
    return all;
  }

  std::string lines() {
    std::string text;
    for (int p = 0; p < kHonest; ++p)
      for (const std::string& line : cluster_.at(p).lines)
        text += cluster_.at(p).name + " " + line + "\n";
    return text;
  }

 private:
  // Of a rank, by the other.
  using Edges = std::map<std::pair<int, int>, uint64_t>;

  static bool is_honest(const std::string& node) {
    for (int h = 0; h < kHonest; ++h)
      if (node == SimulatedCluster::name_of(h)) return true;
    return false;
  }

  std::set<int> honest_ranks() {
    std::set<int> ranks;
    for (int p = 0; p < kHonest; ++p)
      for (const CommunicatorReport& c : cluster_.at(p).status.ranks.communicators)
        ranks.insert(c.rank);
    return ranks;
  }

  using Progress = std::map<int, uint64_t>;  // exchanges or rounds, by rank

  // A rank that has moved counts anew.
  static bool exchanged(const NodeStatus& now, const Progress& before) {
    for (const CommunicatorReport& c : now.ranks.communicators) {
      const auto known = before.find(c.rank);
      if (c.counts.applied > (known == before.end() ? 0 : known->second)) return true;
    }
    return false;
  }

  // Counts the exchanges since the last look on edges between honest ranks, and keeps the sums.
  void look() {
    for (int p = 0; p < kHonest; ++p) {
      cluster_.at(p).status_at_s = -1;
      cluster_.ask(p, ConsoleVerb::status);
      cluster_.run(cluster_.now() + 0.25);
      if (cluster_.at(p).status_at_s < 0 && ending()) return;
      REQUIRE(cluster_.at(p).status_at_s >= 0);
    }
    const std::set<int> honest = honest_ranks();
    uint64_t refused = 0;
    for (int p = 0; p < kHonest; ++p) {
      const NodeStatus& s = cluster_.at(p).status;
      kept_ = kept_ && s.members.size() <= kMembersAtMost && s.rates.size() <= kRateFactsAtMost;
      refused += s.frames.strangers + s.frames.misdirected;
      for (const auto& [why, count] : s.disbelieved)
        refused += count;
      for (const CommunicatorReport& c : s.ranks.communicators)
        for (const EdgeCount& e : c.edges) {
          uint64_t& seen = seen_[{c.rank, e.peer}];
          if (honest.count(e.peer) > 0) exchanges_ += e.applied - std::min(seen, e.applied);
          seen = e.applied;
        }
      uint64_t begun = 0;
      for (const std::string& line : cluster_.at(p).lines)
        begun += line.find("begins incarnation") != std::string::npos;
      begun_[static_cast<size_t>(p)] = begun;
    }
    refused_ = refused;
  }

  std::string difference() {
    std::string why;
    const NodeStatus ours = status_of(cluster_, 0);
    for (int p = 0; p < kHonest; ++p) {
      const NodeStatus s = status_of(cluster_, p);
      if (s.roster_epoch != ours.roster_epoch) why = "two epochs";
      if (s.epoch.epoch != s.roster_epoch) why = "a manager in an earlier epoch";
      if (s.epoch.ranks != 2 * kHonest)
        why = "a graph of " + std::to_string(s.epoch.ranks) + " ranks";
      for (const Member& m : s.members)
        if (in_graph(m) && !is_honest(m.node)) why = m.node + " in the graph";
    }
    return why;
  }

  bool all_ended() {
    for (int p = 0; p < kHonest; ++p)
      if (!cluster_.at(p).ending) return false;
    return true;
  }

  /// Both ends of each honest edge have applied the same, but for what is counted as broken.
  /// (A number that was the enemy's before honest ranks moved there has two stories.)
  std::string edges() {
    Edges applied;
    std::map<int, uint64_t> broken;
    std::set<int> honest;
    for (int p = 0; p < kHonest; ++p) {
      const Counts& all = cluster_.at(p).outcome->counts;  // those of moved ranks, too
      broken_ += all.broken_before + all.broken_after;
      for (const CommunicatorReport& c : cluster_.at(p).outcome->communicators) {
        honest.insert(c.rank);
        broken[c.rank] = c.counts.broken_before + c.counts.broken_after;
        for (const EdgeCount& e : c.edges)
          applied[{c.rank, e.peer}] = e.applied - e.not_finite;
      }
    }
    for (const auto& [edge, count] : applied) {
      const auto [i, j] = edge;
      if (honest.count(j) == 0) continue;
      const auto other = applied.find({j, i});
      const uint64_t there = other == applied.end() ? 0 : other->second;
      if (pairwise() && !moved() && count > there + broken[i] + broken[j])
        return "ranks " + std::to_string(i) + " and " + std::to_string(j) + " have applied " +
               std::to_string(count) + " and " + std::to_string(there);
    }
    return "";
  }

  SimulatedCluster cluster_;
  const Way way_;
  const Settings settings_;
  Edges seen_;
  std::vector<Lie> lies_;
  uint64_t exchanges_ = 0, said_ = 0, refused_ = 0, broken_ = 0;
  std::array<uint64_t, kHonest> begun_{};
  bool kept_ = true;
};

/// Of the difference of the two vectors, how much has moved the rank.
double share_of(const RecordedJump& jump) {
  double moved = 0, asked = 0;
  for (size_t k = 0; k < jump.moved.size(); ++k) {
    const double off = jump.sent[k] - jump.received[k];
    moved += jump.moved[k] * jump.moved[k];
    asked += off * off;
  }
  return std::sqrt(moved / asked);
}

double bytes_resident_at_most() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace

TEST_CASE("whatever a member says, honest nodes live, keep one view, exchange and end as one") {
  const auto [first, last, alone] = seeds_wanted(200);
  uint64_t said = 0, refused = 0, still = 0, with_the_enemy = 0, broken = 0, stops = 0, both = 0;
  double least = 1e9, most_moved = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    INFO("again: GRAPEVINE_SEED=" << seed << " bin/cluster_test \"whatever a member*\"");
    const Siege peace(seed, false);
    Siege siege(seed, true);
    const bool stopped = siege.ending();
    const std::string difference = stopped ? "" : siege.converge(), end = siege.end();
    INFO(siege.way().method << " on " << siege.way().topology << (stopped ? ", stopped" : ""));
    if (first == last) std::fputs(siege.lines().c_str(), stderr);
    CHECK(difference == "");
    CHECK(end == "");
    CHECK(siege.kept());
    CHECK(siege.most_incarnations() <= static_cast<uint64_t>(kLies_s) + 3);
    said += siege.said();
    refused += siege.refused();
    stops += stopped;
    if (!siege.pairwise()) continue;  // in rounds all wait for each other, and sums are others
    const double share =
        static_cast<double>(siege.exchanges()) / static_cast<double>(peace.exchanges());
    if (!stopped) CHECK(share >= 0.5);
    if (!stopped) least = std::min(least, share);
    // The honest sum moves by the jumps with the enemy, by those that broke, and by nothing else.
    const std::vector<RecordedJump> recorded = take_recorded_jumps();
    const Exchanged jumps = exchanged(recorded, siege.lies());
    Account sum = siege.account();
    const double moved = sum.is_off();
    for (size_t k = 0; k < 6; ++k) {
      sum.expected[k] += jumps.sum[k];
      sum.magnitude[k] += jumps.magnitude[k];
    }
    CHECK(sum.is_off() < kRounding);
    CHECK(jumps.is_uneven < kRounding);
    uint64_t unexplained = 0;
    double far_share = 0;  // the largest, of what a far lie asks for
    for (const RecordedJump* jump : jumps.one_end) {
      const Lie* lie = source(*jump, siege.lies());
      unexplained += lie == nullptr;
      if (lie != nullptr && lie->is_far) far_share = std::max(far_share, share_of(*jump));
    }
    CHECK(unexplained <= siege.broken());
    CHECK(far_share < 1e-3);  // the allowance of an edge is some steps, of 1e6 typical ones
    with_the_enemy += jumps.one_end.size() - unexplained;
    both += jumps.both;
    still += jumps.one_end.empty();
    broken += siege.broken();
    most_moved = std::max(most_moved, moved);
  }
  CHECK(refused > 0u);
  CHECK((alone || both > 0u));
  CHECK((alone || still >= (last - first + 1) / 20));
  CHECK((alone || with_the_enemy > 0u));
  CHECK((alone || most_moved > 1e-3));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose heap is another
  CHECK(bytes_resident_at_most() < kBytesAtMost);
#endif
  WARN(said << " messages of a malicious member, " << refused << " refused; honest pairs kept "
            << least << " of their exchanges at least; the honest sum stood still in " << still
            << " runs and moved by " << most_moved << " of itself at most, by " << with_the_enemy
            << " jumps with the enemy and " << broken << " that broke, to rounding; it has stopped "
            << stops << " runs");
}
