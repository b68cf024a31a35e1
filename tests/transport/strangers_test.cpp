// Strangers and malicious peers do nothing that any other peer notices.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "actors/transport/console.hpp"
#include "kernels/base/random.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "messages/control_codec.hpp"
#include "tests/transport/stranger.hpp"
#include "tests/transport/tools.hpp"
#include "tests/transport/valid_peer.hpp"

using namespace grapevine;

namespace {

size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd"), end;
  return static_cast<size_t>(std::distance(all, end));
}

size_t resident_bytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

double cpu_s() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return double(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * double(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

LinksOptions hasty(double connect_s = 2) {  // in which honest ones shake hands, too
  LinksOptions options;
  options.connect_s = connect_s;
  options.no_key = true;
  return options;
}

void is_served(TestNode& a) {
  TestNode honest("honest", without_key());
  connect(honest, a, "honest", "a");
  honest.end();
  a.wait_down("honest");
}

}  // namespace

TEST_CASE("who is silent, slow or says half a hello is closed when the time is up") {
  TestNode a("a", hasty());
  Stranger silent(a.address()), half(a.address()), slow(a.address()), bulk(a.address());
  const auto bytes = encode_control(hello("x"));
  REQUIRE(half.say(bytes->data(), bytes->size() - 8));
  REQUIRE(slow.say(bytes->data(), 1));
  REQUIRE(bulk.say("GVBULK1\n", 8));
  is_served(a);
  CHECK(silent.is_closed());
  CHECK(half.is_closed());
  CHECK(slow.is_closed());
  CHECK(bulk.is_closed());
}

TEST_CASE("garbage, huge announcements and wrong words are refused, and a peer is served") {
  TestNode a("a", hasty());
  Random random(1, 0, Purpose::test);
  const size_t before = resident_bytes();
  for (int k = 0; k < 200; ++k) {
    Stranger s(a.address());
    std::vector<uint32_t> words(64);
    for (auto& word : words)
      word = static_cast<uint32_t>(random.bits());
    if (k % 4 == 1) words[0] = 0, words[1] = 0x1d1d1d1d;             // 3.9 GB
    if (k % 4 == 2) words[0] = 0xffffffff;                           // segments
    if (k % 4 == 3) std::memcpy(words.data(), "GVBULK1\nGVB2", 12);  // a bulk link
    s.say(words.data(), 4 * words.size());
    CHECK(s.is_closed());
  }
  is_served(a);
  CHECK(resident_bytes() < before + (64u << 20));
  CHECK(a.look([&] { return a.ups.size(); }) == 1u);
}

TEST_CASE("500 idle connections cost little, and a peer is served meanwhile") {
  TestNode a("a", hasty());
  const size_t before = resident_bytes();
  const double cpu = cpu_s();
  std::vector<Stranger> strangers;
  for (int k = 0; k < 500; ++k)
    strangers.emplace_back(a.address());
  is_served(a);
  CHECK(resident_bytes() < before + (64u << 20));
  CHECK(strangers.back().is_closed());
  CHECK(strangers.front().is_closed());
  std::printf("500 idle connections took %.3f s of processor time\n", cpu_s() - cpu);
}

TEST_CASE("a node has 64 consoles at most, and one more takes the place of who waits for nothing") {
  TestNode a("a", without_key());
  std::vector<std::unique_ptr<Console>> consoles;
  for (int k = 0; k < 64; ++k) {
    auto console = Console::open(a.address(), {}, 30);
    REQUIRE(console);
    consoles.push_back(*std::move(console));
  }
  std::thread asking([&] {  // the first one waits for an answer, and stays
    CHECK(consoles[0]->ask(
        {ConsoleVerb::status, {}}, [](const ConsoleReply&) { return false; }, 30));
  });
  REQUIRE(a.wait([&] { return a.requests.size() == 1; }));
  for (int k = 0; k < 10; ++k) {
    const auto more = Console::open(a.address(), {}, 30);
    CHECK((more ? "" : more.error().message) == "");
  }
  REQUIRE(a.wait([&] { return a.consoles_gone.size() >= 10; }));
  a.links().reply(a.look([&] { return a.requests[0].first; }), {true, false, "well"});
  asking.join();
  CHECK(Console::open(a.address(), {}, 30));
}

TEST_CASE("a console asks one thing at a time: who does not wait is let go of") {
  TestNode a("a", without_key());
  Hello said = hello("somebody");
  said.purpose = LinkPurpose::console;
  said.version = kConsoleVersion;
  Stranger console(a.address());
  REQUIRE(console.say(said));
  REQUIRE(std::holds_alternative<Hello>(console.hear()));
  REQUIRE(console.say(ConsoleRequest{ConsoleVerb::status, {}}));
  REQUIRE(a.wait([&] { return a.requests.size() == 1; }));
  a.links().reply(a.look([&] { return a.requests[0].first; }), {true, false, "one"});
  REQUIRE(std::holds_alternative<ConsoleReply>(console.hear()));
  REQUIRE(console.say(ConsoleRequest{ConsoleVerb::status, {}}));
  REQUIRE(console.say(ConsoleRequest{ConsoleVerb::status, {}}));
  const ControlMessage answer = console.hear();
  REQUIRE(std::holds_alternative<Refusal>(answer));
  CHECK(std::get<Refusal>(answer).reason == "a request before the answer to the last one");
  CHECK(console.is_closed());
}

TEST_CASE("a console that says what only members say is refused with the reason") {
  TestNode a("a", without_key());
  Hello said = hello("somebody");
  said.purpose = LinkPurpose::console;
  said.version = kConsoleVersion;
  Stranger console(a.address());
  REQUIRE(console.say(said));
  REQUIRE(std::holds_alternative<Hello>(console.hear()));
  REQUIRE(console.say(MembershipPacket{}));
  const ControlMessage answer = console.hear();
  REQUIRE(std::holds_alternative<Refusal>(answer));
  CHECK_THAT(std::get<Refusal>(answer).reason, Catch::EndsWith(" from a console"));
  REQUIRE(a.wait([&] { return a.consoles_gone.size() == 1; }));
}

TEST_CASE("a refusal that quotes the longest job there may be is sent, and the node goes on") {
  TestNode a("a", without_key());
  Hello long_winded = hello("b");
  long_winded.job = 7;
  long_winded.job_is = std::string(kLineBytes, 'j');
  Stranger stranger(a.address());
  REQUIRE(stranger.say(long_winded));
  CHECK(stranger.is_closed());
  REQUIRE(a.wait([&] { return a.turned_away.size() == 1; }));
  CHECK_THAT(a.turned_away[0], Catch::StartsWith("another job: jjj"));
  is_served(a);
}

TEST_CASE("of all who are turned away ten a second are told, so nobody can fill a log") {
  TestNode a("a", without_key());
  const auto begun = std::chrono::steady_clock::now();
  Hello lost = hello("b");
  lost.run = "another";
  constexpr int kCrowd = 300;
  for (int k = 0; k < kCrowd; ++k) {
    Stranger stranger(a.address());
    REQUIRE(stranger.say(lost));
    REQUIRE(stranger.is_closed());
  }
  is_served(a);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const size_t told = a.look([&] { return a.turned_away.size(); });
  CHECK(told > 0u);
  CHECK(static_cast<double>(told) <= 10 * (took.count() + 2));
}

TEST_CASE("without free descriptors a node accepts nobody, and accepts again when there are some") {
  TestNode a("a", hasty(10));
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  rlimit small = limit;
  std::vector<Stranger> strangers;
  small.rlim_cur = open_files() + 20;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &small) == 0);
  for (int k = 0; k < 100; ++k)
    strangers.emplace_back(a.address());
  strangers.clear();
  ::setrlimit(RLIMIT_NOFILE, &limit);
  is_served(a);
}

TEST_CASE("a peer that turns malicious loses its link with the reason, and nobody else notices") {
  TestNode a("a", hasty()), good("good", without_key());
  connect(good, a, "good", "a");
  const auto ends = [&](const std::string& name, const std::vector<std::byte>& bytes,
                        const std::string& why) {
    Stranger s = peer_of(a, name);
    s.say(bytes.data(), bytes.size());
    REQUIRE(a.wait_down(name));
    CHECK(a.downs[name][0] == why);
    CHECK(s.is_closed());
  };
  ends("again", *encode_control(hello("again")), "a hello on a link that stands");
  ends("answer", *encode_control(ConsoleReply{}), "a console reply on a link that stands");
  MembershipPacket rates;
  rates.rates = {{1, 2, 3, 4, {{1, 2, 3.5}}, {}}};
  auto infinite = *encode_control(rates);
  for (size_t at = 0; at + 8 <= infinite.size(); at += 8) {
    const double was = 3.5, is = 1 / 0.0;
    if (std::memcmp(infinite.data() + at, &was, 8) == 0) std::memcpy(infinite.data() + at, &is, 8);
  }
  ends("infinite", infinite, "message refused: perSecond, accepted: 1e-9 to 1e9");
  std::vector<std::byte> announces(16);
  announces[5] = std::byte{0x20};  // 8,192 words and the table's one
  ends("large", announces, "a message larger than the limit of 65536 bytes");
  CHECK(a.links().refusals()[static_cast<size_t>(LinkRefusal::message)] == 4u);
  REQUIRE(good.links().send("a", ping(1)));
  REQUIRE(a.wait([&] { return a.messages.size() == 1; }));
  CHECK(a.look([&] { return a.downs["good"].size(); }) == 0u);
}

TEST_CASE("a bulk link shows a token once; what it announces is judged before it is stored") {
  TestNode a("a", hasty());
  Stranger peer = peer_of(a, "b");
  const auto token = std::get<BulkToken>(peer.hear());
  CHECK(token.token != 0);
  BulkRecord record;
  const auto knock = [&](uint64_t value) {
    Stranger s(a.address());
    record.value = value;
    record.kind = BulkRecord::hello;
    CHECK(s.say("GVBULK1\n", 8));
    CHECK(s.say(&record, sizeof record));
    return s;
  };
  CHECK(knock(token.token + 1).is_closed());
  Stranger bulk = knock(token.token);
  CHECK(knock(token.token).is_closed());
  FrameHeader h;
  h.kind = FrameKind::data;
  h.count = 975u << 20;  // 3.9 GB
  record.kind = BulkRecord::frame;
  record.header = encode(h);
  const uint64_t count = uint64_t{1} << 40;
  std::memcpy(record.header.data() + 64, &count, sizeof count);
  const size_t before = resident_bytes();
  CHECK(bulk.say(&record, sizeof record));
  CHECK(bulk.is_closed());
  CHECK(resident_bytes() < before + (8u << 20));
  CHECK(a.look([&] { return a.downs.size(); }) == 0u);  // the control link stands
}

TEST_CASE("200 cycles of link, payloads both ways and end leave no descriptor, no memory behind") {
  TestNode a("a");
  SnapshotPool of_a(1000, DType::f32, 2);
  FrameHeader h;
  h.kind = FrameKind::data;
  h.count = 1000;
  const auto cycle = [&](int k) {  // in shared memory, through a unix socket, by TCP
    const std::string name = "n" + std::to_string(k);
    LinksOptions options;
    options.same_host = k % 3 != 0;
    TestNode b(name, options);
    b.links().dial(a.address());
    REQUIRE(b.wait_up("a"));
    REQUIRE(a.wait_up(name));
    SnapshotPool of_b(1000, DType::f32, 1,
                      k % 3 == 1 ? SnapshotPool::Memory::shared : SnapshotPool::Memory::own);
    REQUIRE(b.links().send_frame("a", h, {of_b.take(), DType::f32, 1000, 0}));
    REQUIRE(a.links().send_frame(name, h, {of_a.take(), DType::f32, 1000, 0}));
    REQUIRE(a.wait([&] { return !a.frames.empty(); }));
    REQUIRE(b.wait([&] { return !b.frames.empty(); }));
    a.look([&] { a.frames.clear(); });
    b.end();
    REQUIRE(a.wait_down(name));
    REQUIRE(eventually([&] { return of_a.in_use() == 0; }));
  };
  for (int k = 0; k < 20; ++k)
    cycle(k);
  const size_t files = open_files(), bytes = resident_bytes();
  for (int k = 20; k < 220; ++k)
    cycle(k);
  CHECK(eventually([&] { return open_files() <= files; }));
#ifndef __SANITIZE_ADDRESS__  // which keeps what is freed
  CHECK(resident_bytes() < bytes + (8u << 20));
#endif
}

TEST_CASE("a killed process is noticed by the end of its links") {
  int where[2];
  REQUIRE(::pipe(where) == 0);
  const pid_t child = ::fork();  // before this test has threads
  if (child == 0) {
    char address[64] = {};
    if (::read(where[0], address, sizeof address) <= 0) ::_exit(1);
    Stranger s(address);
    s.say(hello("b"));
    s.say(agree(hello("b"), s.hear()));
    for (;;)
      ::pause();
  }
  TestNode a("a", without_key());
  REQUIRE(::write(where[1], a.address().c_str(), a.address().size()) > 0);
  REQUIRE(a.wait_up("b"));
  const auto killed = std::chrono::steady_clock::now();
  ::kill(child, SIGKILL);
  REQUIRE(a.wait_down("b"));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - killed;
  std::printf("a SIGKILL was noticed after %.2f ms\n", 1000 * passed.count());
  CHECK(a.downs["b"][0].find("the other end is gone") == 0);
  ::waitpid(child, nullptr, 0);
  ::close(where[0]);
  ::close(where[1]);
}
