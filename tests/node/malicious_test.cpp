// A member that lies (tests/messages/malicious_member.hpp) among processes of the built program.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "actors/transport/links.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "messages/control_codec.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/messages/malicious_member.hpp"
#include "tests/node/tools.hpp"
#include "tests/signing.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr int kHonest = 3, kRounds = 80;                // of lies, to each of them
constexpr auto kConverged = std::chrono::seconds(100);  // nodes that it invented die one by one
constexpr double kMibAtMost = 1024;

const std::vector<std::string> kJob = {"--method=ad_psgd", "--topology=complete", "--gradients=0",
                                       "--until=600"};

/// The hello of a process of this job: its first message to the node that it joins.
Hello hello_of_job(const Scratch& scratch) {
  const std::string path = scratch.path("socket");
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof at.sun_path);
  std::strcpy(at.sun_path, path.c_str());
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  std::vector<std::string> words = {
      "node",          "--objective=quadratic", "--ranks=1",
      "--quiet",       "--threads=1",           "--node-name=scout",
      "--patience=60", "--first-rank=0",        "--join=unix:" + path};
  words.insert(words.end(), kJob.begin(), kJob.end());
  Process scout(words);
  const int socket = ::accept(listener, nullptr, nullptr);
  std::vector<std::byte> bytes;
  auto said = decode_control(bytes);
  while (!said) {
    std::byte more[4096];
    const ssize_t size = ::recv(socket, more, sizeof more, 0);
    REQUIRE(size > 0);
    bytes.insert(bytes.end(), more, more + size);
    said = decode_control(bytes);
  }
  ::close(socket);
  ::close(listener);
  REQUIRE(std::holds_alternative<Hello>(*said));
  return std::get<Hello>(*said);
}

/// Has links, a name and a place among the members, and says what it likes.
class Liar {
 public:
  Liar(Hello self, const std::vector<std::string>& addresses, uint64_t seed)
      : run_(run_of(self)),
        tongue_(
            seed, "liar", {"a", "b", "c"},
            [](const std::string& as) { return signing_of(key_of(as)); }, run_),
        addresses_(addresses) {
    self.node = "liar";
    self.address.clear();
    LinksOptions options;
    options.self = std::move(self);
    options.own_key = key_;
    LinkEvents events;
    events.up = [this](const Hello& peer) {
      const std::lock_guard lock(mutex_);
      up_.insert(peer.node);
    };
    events.down = [this](const std::string& node, uint32_t, const std::string&) {
      const std::lock_guard lock(mutex_);
      up_.erase(node);
    };
    events.control = [this](const std::string& node, const ControlMessage& m) { hear(node, m); };
    events.frame = [this](const std::string&, const Frame& frame) {
      const std::lock_guard lock(mutex_);
      tongue_.hear(frame.header);
    };
    events.buffer = [](const FrameHeader&) { return Lease(); };
    events.parcel_buffer = [](const std::string&, const Parcel&) { return Lease(); };
    auto opened = Links::open(std::move(options), std::move(events));
    REQUIRE(opened);
    const std::lock_guard lock(mutex_);  // it may have heard something already
    links_ = std::move(*opened);
    record_.node = "liar";
    record_.incarnation = 1;
    record_.address = links_->address();
    record_.key = key_.public_key();
    record_.first_rank = 2 * kHonest;
    record_.ranks = 1;
  }
  ~Liar() {
    std::unique_ptr<Links> last;  // ends unlocked: it waits for what is being heard
    const std::lock_guard lock(mutex_);
    last = std::move(links_);
  }

  /// One to each that it has a link with. False: it has none, and dials again.
  bool speak() {
    std::set<std::string> up;
    std::vector<std::function<void()>> said;
    {
      const std::lock_guard lock(mutex_);
      up = up_;
      for (const std::string& node : up)
        said.push_back(draw(node));
    }
    for (const auto& say : said)
      say();
    if (up.size() < addresses_.size())
      for (const std::string& address : addresses_)
        links_->dial(address);
    return !up.empty();
  }

  /// News of a member, to all that it has a link with. False: of none, and it dials again.
  bool tell(const Member& m) {
    std::set<std::string> up;
    {
      const std::lock_guard lock(mutex_);
      up = up_;
    }
    MembershipPacket packet;
    packet.kind = MembershipPacket::Kind::sync_reply;
    packet.news = {signed_by(key_, record_, run_), signed_by_itself(m, run_)};
    for (const std::string& node : up)
      links_->send(node, packet);
    for (const std::string& address : addresses_)
      if (up.empty()) links_->dial(address);
    return !up.empty();
  }

  uint64_t payloads() const { return payloads_; }

 private:
  std::function<void()> draw(const std::string& node) {
    Links* links = links_.get();
    switch (tongue_.random().below(4)) {
      case 0: {
        MembershipPacket truth;
        truth.kind = MembershipPacket::Kind::sync_reply;
        truth.news.push_back(signed_by(key_, record_, run_));
        return [=] { links->send(node, truth); };
      }
      case 1: {
        FrameHeader h = tongue_.header();
        if (!carries_payload(h.kind)) h.kind = FrameKind::data;
        h.count = 1 + tongue_.random().below(64);
        const Payload payload = payload_of(h.dtype, h.count);
        return [=, this] { payloads_ += links->send_frame(node, h, payload); };
      }
      case 2: {
        const Parcel parcel = tongue_.parcel();
        const Payload payload = payload_of(parcel.dtype, parcel.count);
        return [=, this] { payloads_ += links->send_parcel(node, parcel, payload); };
      }
      default: {
        ControlMessage message = tongue_.message();
        if (auto* packet = std::get_if<MembershipPacket>(&message))
          // Every member may stop the run, and this one trains on.
          std::erase_if(packet->news, [](const Member& m) { return m.stops; });
        return [=] { links->send(node, message); };
      }
    }
  }

  Payload payload_of(DType dtype, uint64_t count) {
    SnapshotPool pool(count, dtype, 1);
    Payload payload{pool.take(), dtype, count, 0};
    tongue_.fill(payload.lease.writable());
    return payload;
  }

  void hear(const std::string& node, const ControlMessage& m) {
    const std::lock_guard lock(mutex_);
    const auto* packet = std::get_if<MembershipPacket>(&m);
    if (packet == nullptr) return;
    tongue_.hear(*packet);
    outlive(record_, *packet, key_.signing(), run_);
    if (packet->kind == MembershipPacket::Kind::ping && links_) links_->send(node, ack_of(*packet));
  }

  std::mutex mutex_;  // guards what follows; the links come and go under it
  const uint64_t run_;
  const NodeKey key_ = key_of("liar");
  MaliciousMember tongue_;
  Member record_;
  std::set<std::string> up_;
  std::vector<std::string> addresses_;
  std::unique_ptr<Links> links_;
  uint64_t payloads_ = 0;  // that went out
};

/// Whether it takes nobody for alive who is not: the mean at the end names those as missing.
bool knows_the_honest_alone(const Json& status) {
  const std::set<std::string> honest{"a", "b", "c"}, over{"dead", "left"};
  for (const Json& m : status["members"])
    if (over.count(m["state"]) == 0 && honest.count(m["node"]) == 0) return false;
  return status["graph_ranks"] == 2 * kHonest;
}

/// Its status, once there are none but honest nodes in its graph and among its members.
Json converged(Process& node) {
  const auto deadline = std::chrono::steady_clock::now() + kConverged;
  for (;;) {
    const Json status = status_of(node.address());
    if (status.is_object() && knows_the_honest_alone(status)) return status;
    INFO(node.err());
    REQUIRE_FALSE(node.ended());
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    ChildProcess::wait_any({&node.child()}, 100);
  }
}

/// The most that a running node has had in memory; its socket is called NAME.PID.sock.
double peak_mib(const std::string& address) {
  const size_t end = address.rfind('.'), begin = address.rfind('.', end - 1) + 1;
  std::ifstream status("/proc/" + address.substr(begin, end - begin) + "/status");
  const std::string wanted = "VmHWM:";
  for (std::string word; status >> word;) {
    if (word != wanted) continue;
    double kib = 0;
    status >> kib;
    return kib / 1024;
  }
  return 0;
}

}  // namespace

TEST_CASE("whatever a member says to real processes, they live, train on and end with one mean") {
  const Scratch scratch;
  const Hello job = hello_of_job(scratch);
  auto nodes = start_nodes(kHonest, 2, kJob);
  std::vector<std::string> addresses;
  for (auto& node : nodes) {
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 2 * kHonest; });
    addresses.push_back(node->address());
  }
  int said = 0;
  uint64_t payloads = 0;
  {
    Liar liar(job, addresses, 1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (said < kRounds && std::chrono::steady_clock::now() < end) {
      said += liar.speak();
      ChildProcess::wait_any({&nodes[0]->child(), &nodes[1]->child(), &nodes[2]->child()}, 20);
      for (auto& node : nodes) {
        INFO(node->err());
        REQUIRE_FALSE(node->ended());
      }
    }
    payloads = liar.payloads();
  }
  CHECK(said == kRounds);
  CHECK(payloads > 0u);
  uint64_t refused = 0;
  for (auto& node : nodes) {
    const Json before = converged(*node);
    node->wait_for(
        [&](const Json& s) { return sum_of(s["exchanges"]) > sum_of(before["exchanges"]); });
    const double mib = peak_mib(node->address());
    CHECK(mib > 0);
    CHECK(mib < kMibAtMost);
    for (const auto& [why, count] : before["refusals"]["disbelieved"].items())
      refused += count.get<uint64_t>();
  }
  CHECK(refused > 0u);
  WARN(said << " rounds of lies, " << payloads << " payloads among them, " << refused
            << " refused by the membership");
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " stop").status == 0);
  std::set<std::string> hashes;
  for (auto& node : nodes) {
    const int status = node->end();
    INFO(node->err());
    CHECK(status == 0);
    const Json result = node->result();
    hashes.insert(result["mean_hash"].dump());
  }
  CHECK(hashes.size() == 1u);
}

TEST_CASE(
    "an address that a member has invented is counted and told once, and in our words alone") {
  const Scratch scratch;
  const Hello job = hello_of_job(scratch);
  auto nodes = start_nodes(1, 2, kJob);
  const std::string address = nodes[0]->address();
  Liar liar(job, {address}, 1);
  Member invented;
  invented.node = "nobody";
  invented.address = "no such host:7";  // which no resolver is asked for
  invented.incarnation = 1;
  constexpr char kUnresolved[] = "the name does not resolve";
  const Json told = nodes[0]->wait_for([&](const Json& s) {
    liar.tell(invented);
    return s["refusals"]["turned_away"].contains(kUnresolved);
  });
  CHECK(told["refusals"]["turned_away"][kUnresolved] == 1);
  int times = 0;
  for (const std::string event : told["events"])
    times += event.find("no such host:7: the name does not resolve") != event.npos;
  CHECK(times == 1);
  nodes[0]->signal(SIGKILL);  // it would wait for the liar's mean
  nodes[0]->end();
  std::istringstream lines(nodes[0]->err());
  const std::regex ours("\\d\\d:\\d\\d:\\d\\d .*|grapevine: .*");
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(std::regex_match(line, ours));
  }
}
