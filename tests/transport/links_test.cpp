// Control links between nodes in one process, over loopback.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "actors/transport/console.hpp"
#include "actors/transport/sockets.hpp"
#include "tests/deadline.hpp"
#include "tests/transport/tools.hpp"

using namespace grapevine;
using test::came_too_late;
using test::kDeadline;

TEST_CASE("two nodes say who they are, and what one sends the other gets, in order") {
  TestNode a("a"), b("b");
  connect(a, b, "a", "b");
  a.look([&] {
    CHECK(a.ups["b"][0].address == b.address());
    CHECK(a.ups["b"][0].incarnation == 1u);
  });
  for (uint64_t k = 0; k < 1000; ++k)
    REQUIRE(a.links().send("b", ping(k)));
  REQUIRE(b.wait([&] { return b.messages.size() == 1000; }));
  b.look([&] {
    for (uint64_t k = 0; k < 1000; ++k) {
      CHECK(b.messages[k].first == "a");
      CHECK(std::get<MembershipPacket>(b.messages[k].second).sequence == k);
    }
  });
  CHECK(a.links().counts("b").messages_sent == 1000u);
  CHECK(b.links().counts("a").messages_received == 1000u);
  CHECK(b.links().counts("a").message_bytes_received == a.links().counts("b").message_bytes_sent);
}

TEST_CASE("a frame without a payload travels with the control messages") {
  TestNode a("a"), b("b");
  connect(a, b, "a", "b");
  FrameHeader offer;
  offer.from = 3;
  offer.number = 7;
  REQUIRE(b.links().send_frame("a", offer, {}));
  REQUIRE(a.wait([&] { return a.frames.size() == 1; }));
  CHECK(a.frames[0].from == "b");
  CHECK(a.frames[0].header == offer);
  CHECK(!a.frames[0].payload);
}

TEST_CASE("nodes that dial each other at once have one link, and both know the same one") {
  for (int round = 0; round < 40; ++round) {
    TestNode a("a"), b("b");
    a.links().dial(b.address());
    b.links().dial(a.address());
    if (round % 2 != 0) a.links().dial(b.address());
    REQUIRE(a.wait_up("b"));
    REQUIRE(b.wait_up("a"));
    REQUIRE(a.links().send("b", ping(1)));
    REQUIRE(b.links().send("a", ping(2)));
    REQUIRE(a.wait([&] { return a.messages.size() == 1; }));
    REQUIRE(b.wait([&] { return b.messages.size() == 1; }));
    a.end();
    b.wait_down("a");
    b.look([&] {
      CHECK(b.ups["a"].size() == b.downs["a"].size());
      CHECK(b.turned_away.empty());
    });
  }
}

TEST_CASE("a node that dials itself is told so, and has turned nobody away") {
  TestNode a("a");
  a.links().dial(a.address());
  REQUIRE(a.wait([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0] == "the name a is this node's own");
  CHECK(a.look([&] { return a.turned_away.empty(); }));  // the end that refuses knew it first
}

TEST_CASE("peers of another run, job, version or name are refused with one line at both ends") {
  TestNode a("a");
  const auto refused = [&](Hello self, const std::string& name, const std::string& why) {
    LinksOptions options;
    options.self = std::move(self);
    TestNode other(name, options);
    other.links().dial(a.address());
    REQUIRE(other.wait([&] { return other.failures.size() == 1; }));
    CHECK(other.failures[0] == why);
    REQUIRE(a.wait([&] { return !a.turned_away.empty() && a.turned_away.back() == why; }));
    CHECK(other.look([&] { return other.ups.size(); }) == 0);
  };
  Hello hello;
  hello.run = "other";
  refused(hello, "b", "another run: other at b, test at a");
  hello.run = "test";
  hello.job = 5;
  hello.job_is = "ad_psgd f32";
  refused(hello, "b", "another job: ad_psgd f32 at b,  at a");
  hello = {};
  hello.version = kControlVersion + 1;
  const std::string theirs = std::to_string(hello.version), ours = std::to_string(kControlVersion);
  refused(hello, "b", "another protocol version: " + theirs + " at b, " + ours + " at a");
  refused({}, "a", "the name a is this node's own");
}

TEST_CASE("a dial to a dead port, to a bad name and beyond loopback fails with its reason") {
  TestNode a("a", without_key());
  std::string dead;
  {
    TestNode gone("gone");
    dead = gone.address();
  }
  a.links().dial(dead);
  REQUIRE(a.wait([&] { return a.failures.size() == 1; }));
  CHECK(a.failures[0] == "refused: Connection refused");
  a.links().dial("no-such-host.invalid:7000");
  REQUIRE(a.wait([&] { return a.failures.size() == 2; }));
  CHECK_FALSE(a.failures[1].empty());
  for (int k = 0; k < 2; ++k)
    a.links().dial("no such host:7000");  // which no resolver is asked for
  REQUIRE(a.wait([&] { return a.failures.size() == 4; }));
  CHECK(a.failures[3] == "the name does not resolve");
  const auto told = a.look([&] { return a.turned_away; });
  CHECK(std::count(told.begin(), told.end(), a.failures[3]) >= 1);
  CHECK(told.size() <= 2);  // each address once
  a.links().dial("192.0.2.1:7000");
  REQUIRE(a.wait([&] { return a.failures.size() == 5; }));
  CHECK(a.failures[4] == "not a loopback address, accepted: a run key with it");
  a.links().dial("unix:/etc/passwd");
  REQUIRE(a.wait([&] { return a.failures.size() == 6; }));
  CHECK(a.failures[5] == "only a node that listens on a unix socket can dial one");
}

namespace {

size_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

/// The text written on standard error during `happens`.
std::string said_on_standard_error(const std::function<void()>& happens) {
  char name[] = "/tmp/grapevine-stderr-XXXXXX";
  const int file = ::mkstemp(name), before = ::dup(STDERR_FILENO);
  REQUIRE(file >= 0);
  ::unlink(name);
  std::fflush(stderr);
  REQUIRE(::dup2(file, STDERR_FILENO) >= 0);
  happens();
  std::fflush(stderr);
  REQUIRE(::dup2(before, STDERR_FILENO) >= 0);
  std::string said(4096, 0);
  const ssize_t size = ::pread(file, said.data(), said.size(), 0);
  said.resize(static_cast<size_t>(std::max<ssize_t>(0, size)));
  ::close(file);
  ::close(before);
  return said;
}

}  // namespace

TEST_CASE("a dial to another program's server is told that it speaks another protocol") {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  const int listener = bind_and_listen(AF_INET, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  REQUIRE(listener >= 0);
  socklen_t size = sizeof at;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size);
  TestNode a("a", without_key());
  a.links().dial("127.0.0.1:" + std::to_string(::ntohs(at.sin_port)));
  pollfd ready{listener, POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 10'000) == 1);
  const int taken = ::accept(listener, nullptr, nullptr);
  const std::string_view answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
  REQUIRE(::send(taken, answer.data(), answer.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(answer.size()));
  REQUIRE(a.wait([&] { return !a.failures.empty(); }));
  CHECK(a.failures[0] == "what is there speaks another protocol");
  ::close(taken);
  ::close(listener);
}

TEST_CASE("a dial that ends before its name is looked up leaves the failure to no log but ours") {
  LinksOptions options = without_key();
  options.connect_s = 1e-6;
  TestNode a("a", options);
  const size_t threads = threads_of_process();
  const std::string said = said_on_standard_error([&] {
    constexpr size_t kDials = 20;
    for (size_t k = 0; k < kDials; ++k) {
      a.links().dial("no such host:7000");
      CHECK(a.wait([&] { return a.failures.size() == k + 1; }));
    }
    CHECK(eventually([&] { return threads_of_process() <= threads; }));  // all are looked up
  });
  CHECK(said == "");
}

TEST_CASE("an address that cannot be listened on is refused with one line") {
  TestNode a("a");
  LinksOptions options;
  options.self.node = "b";
  options.no_key = true;
  const auto refusal = [&](const std::string& listen) {
    options.listen = listen;
    const auto opened = Links::open(options, {});
    return opened ? "accepted" : opened.error().message;
  };
  CHECK(refusal(a.address()) == "listen " + a.address() + ": Address already in use");
  CHECK(refusal("0.0.0.0:0") ==
        "listen 0.0.0.0:0: not a loopback address, accepted: a run key with it (--key; grapevine "
        "keygen makes one)");
  CHECK(refusal("here") == "listen here: accepted are host:port and unix:/path");
  for (const char* port : {"65536", "99999", "-1", "+80", " 80", "http"})
    CHECK(refusal(std::string("127.0.0.1:") + port) ==
          std::string("listen 127.0.0.1:") + port + ": accepted is a port from 0 (any) to 65535");
  CHECK(refusal("*:0") ==
        "listen *:0: accepted is an address of this host, or 0.0.0.0 or [::] for all of them");
  CHECK(refusal("unix:") == "listen unix:: a path of 0 bytes, accepted: 1 to 107");
  options.self.node = "";
  CHECK(refusal("127.0.0.1:0") == "message refused: node of 0 bytes, accepted: at least 1");
}

TEST_CASE("an end said politely is told from one that was not, once each") {
  TestNode a("a"), b("b"), c("c");
  connect(a, b, "a", "b");
  connect(c, b, "c", "b");
  REQUIRE(a.links().send("b", ping(1)));
  a.links().close("b");
  REQUIRE(b.wait_down("a"));
  REQUIRE(a.wait_down("b"));
  CHECK(b.downs["a"][0] == "the other end has left");
  CHECK(a.downs["b"][0] == "closed here");
  CHECK(b.look([&] { return b.messages.size(); }) == 1u);  // what was queued came first
  CHECK_FALSE(a.links().send("b", ping(2)));
  c.end();
  REQUIRE(b.wait_down("c"));
  connect(b, a, "b", "a");  // and they meet again
  CHECK(a.look([&] { return a.downs["b"].size(); }) == 1u);
}

TEST_CASE(
    "a new incarnation of a node takes the place of the old one, an old incarnation is refused") {
  TestNode a("a");
  TestNode first("b", {}, 1);
  connect(first, a, "b", "a");
  TestNode second("b", {}, 2);
  second.links().dial(a.address());
  REQUIRE(a.wait_up("b", 2));
  a.look([&] {
    CHECK(a.downs["b"].size() == 1);
    CHECK(a.ups["b"][1].incarnation == 2u);
  });
  REQUIRE(first.wait_down("a"));
  first.links().dial(a.address());
  REQUIRE(first.wait([&] { return first.failures.size() == 1; }));
  CHECK(first.failures[0] == "incarnation 1 of b is over, there is an incarnation 2");
  TestNode z("z"), old("y", {}, 1), young("y", {}, 3);  // and with the names the other way round
  connect(young, z, "y", "z");
  old.links().dial(z.address());
  REQUIRE(old.wait([&] { return old.failures.size() == 1; }));
  CHECK(old.failures[0] == "incarnation 1 of y is over, there is an incarnation 3");
}

TEST_CASE(
    "of two processes with one name the second is refused while the first answers, else let in") {
  for (const std::string name : {"a", "c"}) {  // below and above the name of whom they meet
    TestNode b("b"), first(name);
    connect(first, b, name, "b");
    {
      TestNode second(name);
      CHECK(second.links().key() != first.links().key());
      second.links().dial(b.address());
      REQUIRE(first.wait([&] { return !first.messages.empty(); }));
      MembershipPacket ack;
      ack.kind = MembershipPacket::Kind::ack;
      REQUIRE(first.links().send("b", ack));
      REQUIRE(second.wait([&] { return !second.failures.empty(); }));
      CHECK(second.failures[0] == kNameTaken);
      REQUIRE(b.wait([&] { return !b.turned_away.empty(); }));
      CHECK(b.turned_away[0] == kNameTaken);
    }
    b.look([&] { CHECK(b.downs[name].empty()); });
    TestNode third(name);  // now the first says this and that, and answers nothing
    third.links().dial(b.address());
    REQUIRE(first.wait([&] { return first.messages.size() == 2; }));
    MembershipPacket other;
    REQUIRE(first.links().send("b", other));  // a ping of its own
    other.kind = MembershipPacket::Kind::ack;
    other.sequence = 7;
    REQUIRE(first.links().send("b", other));
    REQUIRE(third.wait_up("b"));
    REQUIRE(b.wait_up(name, 2));
    b.look([&] {
      CHECK(b.ups[name][1].key == third.links().key());
      CHECK(b.downs[name][0] == "it does not answer, and another process of its name does");
    });
  }
}

TEST_CASE("a full queue says false, and counts it, instead of growing") {
  LinksOptions small;
  small.queued_bytes = 1000;
  TestNode a("a", small), b("b");
  connect(a, b, "a", "b");
  // A message that is larger than the whole queue never fits.
  MembershipPacket large;
  large.graph.topology = std::string(2000, 'x');
  CHECK_FALSE(a.links().send("b", large));
  CHECK(a.links().counts("b").refused == 1u);
  CHECK(a.links().send("b", ping(1)));
  REQUIRE(b.wait([&] { return b.messages.size() == 1; }));
  CHECK_FALSE(a.links().send("nobody", ping(1)));
}

TEST_CASE("unix sockets carry links too, and a socket file that nobody serves is replaced") {
  const std::string folder = "/tmp/grapevine, transport_" + std::to_string(::getpid());
  LinksOptions one, two;
  one.listen = "unix:" + folder + "_1";
  two.listen = "unix:" + folder + "_2";
  {
    TestNode a("a", one), b("b", two);
    connect(a, b, "a", "b");
    REQUIRE(a.links().send("b", ping(1)));
    REQUIRE(b.wait([&] { return b.messages.size() == 1; }));
    LinksOptions options = one;
    options.self.node = "c";
    const auto taken = Links::open(options, {});
    REQUIRE(!taken);
    CHECK(taken.error().message == "listen " + one.listen + ": Address already in use");
  }
  CHECK(::access((folder + "_1").c_str(), F_OK) != 0);
  {  // the process has gone with its file, so nobody listens
    TestNode b("b", two);
    b.links().dial(one.listen);
    REQUIRE(b.wait([&] { return b.failures.size() == 1; }));
    CHECK(b.failures[0] == "refused: No such file or directory");
  }
  // A file left behind by a process that was killed.
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un path{};
  path.sun_family = AF_UNIX;
  std::strcpy(path.sun_path, (folder + "_1").c_str());
  REQUIRE(::bind(left, reinterpret_cast<const sockaddr*>(&path), sizeof path) == 0);
  ::close(left);
  TestNode again("a", one);
}

TEST_CASE("many threads send at once, and each one's messages keep their order") {
  TestNode a("a"), b("b");
  connect(a, b, "a", "b");
  constexpr uint64_t kThreads = 4, kEach = 2000;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t k = 0; k < kEach; ++k)
        for (const auto begun = std::chrono::steady_clock::now();
             !a.links().send("b", ping(t << 32 | k)); std::this_thread::yield())
          if (std::chrono::steady_clock::now() > begun + kDeadline)
            came_too_late("room for a message");
    });
  for (auto& thread : threads)
    thread.join();
  REQUIRE(b.wait([&] { return b.messages.size() == kThreads * kEach; }));
  uint64_t next[kThreads] = {};
  for (const auto& [from, m] : b.messages) {
    const uint64_t sequence = std::get<MembershipPacket>(m).sequence;
    CHECK(next[sequence >> 32]++ == (sequence & 0xffffffff));
  }
}

TEST_CASE("a console asks and is answered in parts, each console by itself") {
  TestNode a("a", without_key());
  const auto one = Console::open(a.address(), {}), two = Console::open(a.address(), {});
  REQUIRE(one);
  REQUIRE(two);
  CHECK((*one)->node().node == "a");
  std::thread answers([&] {
    REQUIRE(a.wait([&] { return a.requests.size() == 1; }));
    a.links().reply(a.requests[0].first, {true, true, "first "});
    a.links().reply(a.requests[0].first, {true, false, a.requests[0].second.argument});
  });
  std::string text;
  const Status asked = (*one)->ask({ConsoleVerb::reconfigure, "ring\nline"}, [&](const auto& part) {
    text += part.text;
    return true;
  });
  answers.join();
  CHECK(asked);
  CHECK(text == "first ring\nline");
  CHECK((*two)->ask({ConsoleVerb::status, "\x1b"}, {}).error().exit_status() == 2);
  CHECK(a.look([&] { return a.ups.size(); }) == 0u);
}

TEST_CASE("a console at a dead address, or whose node ends, gets one line") {
  std::string dead;
  {
    TestNode a("a", without_key());
    dead = a.address();
    const auto console = Console::open(a.address(), {});
    REQUIRE(console);
    a.end();
    const Status asked = (*console)->ask({}, [](const auto&) { return true; });
    CHECK(!asked);
  }
  CHECK(Console::open(dead, {}).error().message == dead + ": Connection refused");
  CHECK(Console::open(dead, {}).error().exit_status() == 1);
  CHECK(Console::open("192.0.2.1:1", {}).error().message ==
        "192.0.2.1:1: not a loopback address, accepted: a run key with it");
}
