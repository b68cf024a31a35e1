// Payloads whose connection ends: nobody is accused wrongly, and nothing is lost without a word.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "kernels/memory/snapshot_pool.hpp"
#include "tests/deadline.hpp"
#include "tests/transport/frames.hpp"
#include "tests/transport/tools.hpp"

using namespace grapevine;

namespace {

/// Waits for so many, one after the other; false where the connection ended.
bool take(TestNode& node, size_t frames) {
  for (size_t k = 0; k < frames; ++k) {
    if (!node.wait([&] { return !node.frames.empty() || !node.bulk_ends.empty(); })) return false;
    if (!node.look([&] { return node.bulk_ends.empty(); })) return false;
    node.look([&] { node.frames.erase(node.frames.begin()); });
  }
  return true;
}

/// Between two nodes, both ways at once; `came` after each.
bool cross_payloads(const std::function<bool()>& came) {
  constexpr size_t kMany = 8 << 20, kFrames = 50;
  LinksOptions options = only_tcp();
  options.stall_s = 1;
  TestNode a("a", options), b("b", options);
  connect(a, b, "a", "b");
  SnapshotPool large(kMany, DType::f32, 1);
  const Payload payload{large.take(), DType::f32, kMany, 0};
  for (uint64_t k = 0; k < kFrames; ++k)
    if (!a.links().send_frame("b", data(k, kMany), payload) ||
        !b.links().send_frame("a", data(k, kMany), payload))
      return false;
  bool of_a = true, of_b = false;
  std::thread other([&] { of_b = take(b, kFrames); });
  for (size_t k = 0; k < kFrames; ++k)
    of_a = of_a && take(a, 1) && came();
  other.join();
  return of_a && of_b;
}

/// The next word of a child.
char word_from(int fd) {
  constexpr std::chrono::milliseconds kPatience = test::kDeadline;
  pollfd there{fd, POLLIN, 0};
  if (::poll(&there, 1, static_cast<int>(kPatience.count())) != 1)
    test::came_too_late("word of the child");
  char word = 0;
  REQUIRE(::read(fd, &word, 1) == 1);
  return word;
}

}  // namespace

TEST_CASE("a process that was stopped accuses nobody when it goes on, and no payload is lost") {
  int said[2], quiet[2];
  REQUIRE(::pipe(said) == 0);
  REQUIRE(::pipe(quiet) == 0);
  const pid_t child = ::fork();  // before this test has threads
  if (child == 0) {
    const bool well = cross_payloads([&] { return ::write(said[1], ".", 1) == 1; });
    ::_exit(::write(said[1], well ? "y" : "n", 1) == 1 ? 0 : 1);
  }
  char word = '.';
  for (int stops = 0; stops < 5 && word == '.'; ++stops) {
    word = word_from(said[0]);
    ::kill(child, SIGSTOP);
    pollfd nothing{quiet[0], POLLIN, 0};
    ::poll(&nothing, 1, 1300);  // longer than a payload may stand still
    ::kill(child, SIGCONT);
  }
  while (word == '.')
    word = word_from(said[0]);
  CHECK(word == 'y');
  ::waitpid(child, nullptr, 0);
  for (const int fd : {said[0], said[1], quiet[0], quiet[1]})
    ::close(fd);
}

TEST_CASE("payloads that are lost with their connection are counted, and both ends say why") {
  LinksOptions strict = only_tcp();
  strict.max_payload_bytes = 4000;
  TestNode a("a", only_tcp()), b("b", strict);
  connect(a, b, "a", "b");
  std::vector<Payload> large;
  for (uint32_t k = 0; k < 8; ++k)
    large.push_back({a.pool().take(), DType::f32, 1 << 20, 0});
  for (uint64_t k = 0; k < 8; ++k)
    a.links().send_frame("b", data(k, 1 << 20), large[k]);
  REQUIRE(b.wait([&] { return !b.bulk_ends.empty(); }));
  CHECK(b.bulk_ends[0].starts_with("0 lost: "));
  // Those that the socket had taken already went with it; the others are told, one by one or more.
  REQUIRE(a.wait([&] { return !a.bulk_ends.empty(); }));
  REQUIRE(eventually([&] {
    const LinkCounts c = a.links().counts("b");
    return c.frames_sent + c.lost == 8;
  }));
  CHECK(a.links().counts("b").lost > 0u);
  CHECK(a.look([&] { return a.downs.size(); }) == 0u);
}

TEST_CASE(
    "what a link has counted stays in the totals when it ends, and its successor adds to it") {
  TestNode a("a", only_tcp()), b("b", only_tcp());
  uint64_t before = 0;
  for (int life = 1; life <= 3; ++life) {
    INFO("life " << life);
    a.links().dial(b.address());
    REQUIRE(a.wait_up("b", static_cast<size_t>(life)));
    REQUIRE(b.wait_up("a", static_cast<size_t>(life)));
    REQUIRE(a.links().send_frame("b", data(1, 1000), {a.pool().take(), DType::f32, 1000, 0}));
    REQUIRE(eventually([&] { return b.links().counts("a").frames_received == 1; }));
    REQUIRE(eventually([&] { return a.links().counts("b").frames_sent == 1; }));
    const LinkCounts standing = a.links().totals();
    CHECK(standing.frames_sent == static_cast<uint64_t>(life));
    CHECK(standing.message_bytes_sent >= before);
    before = standing.message_bytes_sent;
    a.links().close("b");
    REQUIRE(a.wait_down("b", static_cast<size_t>(life)));
    REQUIRE(b.wait_down("a", static_cast<size_t>(life)));
    CHECK(a.links().counts("b").frames_sent == 0);
    CHECK(a.links().totals().frames_sent == static_cast<uint64_t>(life));
    CHECK(b.links().totals().frames_received == static_cast<uint64_t>(life));
    CHECK(a.links().totals().message_bytes_sent >= before);
  }
}
