// The queue of a bulk link: frames that go straight into a real socket, on the threads that send
// them, and the loop that takes what is left.
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "actors/transport/bulk_queue.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/transport/frames.hpp"

using namespace grapevine;

namespace {

struct Sockets {
  int ours = -1, theirs = -1;
  Sockets() {
    std::array<int, 2> both{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, both.data()) == 0);
    const timeval patience{60, 0};
    for (const int end : both)
      for (const int way : {SO_RCVTIMEO, SO_SNDTIMEO})
        REQUIRE(::setsockopt(end, SOL_SOCKET, way, &patience, sizeof patience) == 0);
    ours = both[0];
    theirs = both[1];
  }
  ~Sockets() {
    ::close(ours);
    ::close(theirs);
  }
  Sockets(const Sockets&) = delete;
};

bool read_all(int fd, void* data, size_t size) {
  return ::recv(fd, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

/// The next frame off the wire; nothing if it is not whole.
std::optional<FrameHeader> read_frame(int fd) {
  BulkRecord record;
  if (!read_all(fd, &record, sizeof record) || record.magic != BulkRecord::kMagic) return {};
  const auto header = decode(record.header, kMaxPayloadBytes);
  if (!header) return {};
  std::vector<std::byte> payload(payload_bytes(*header));
  uint64_t told = 0;
  if (!read_all(fd, payload.data(), payload.size()) || !read_all(fd, &told, sizeof told)) return {};
  Checksum sum;
  sum.add(&record.header, sizeof record.header);
  sum.add(payload.data(), payload.size());
  if (sum.value() != told) return {};
  return *header;
}

OutgoingPayload frame(SnapshotPool& pool, uint64_t number, size_t count) {
  Payload p{pool.take(), DType::f32, count, 0};
  REQUIRE(p.lease);
  auto* x = p.writable(DType::f32, count).as<float>();
  for (size_t k = 0; k < count; ++k)
    x[k] = static_cast<float>(number + k);
  return {data(number, count), p, {}};
}

/// As the loop does.
void write_all(BulkQueue& queue, int fd) {
  if (!queue.take_pen()) return;  // whoever has it wakes the loop
  while (auto frame = queue.take()) {
    while (!frame->done()) {
      const auto pieces = frame->next();
      const ssize_t n = ::writev(fd, pieces.data(), static_cast<int>(pieces.size()));
      GV_CHECK(n > 0);
      frame->advance(static_cast<size_t>(n));
    }
  }
}

}  // namespace

TEST_CASE("a frame goes straight into a plain socket, a large one and a lent one to the loop") {
  Sockets sockets;
  SnapshotPool pool(1 << 19, DType::f32, 4);
  SnapshotPool shared(64, DType::f32, 1, SnapshotPool::Memory::shared);
  int woken = 0;
  BulkQueue queue(8, [&] { ++woken; });
  CHECK(queue.push(frame(pool, 1, 100)) == BulkQueue::Pushed::queued);  // no connection yet
  REQUIRE(queue.clear(false) == 1u);
  queue.stand(sockets.ours, true, true);
  CHECK(queue.push(frame(pool, 2, 100)) == BulkQueue::Pushed::sent);
  CHECK(queue.empty());
  CHECK(woken == 1);
  const auto came = read_frame(sockets.theirs);
  REQUIRE(came);
  CHECK(*came == data(2, 100));
  CHECK(queue.push(frame(pool, 3, (1 << 18) + 1)) == BulkQueue::Pushed::queued);
  CHECK(woken == 2);
  REQUIRE(queue.take_pen());
  REQUIRE(queue.take());
  CHECK_FALSE(queue.take());
  CHECK(queue.push(frame(shared, 4, 10)) == BulkQueue::Pushed::queued);
  CHECK(queue.clear(true) == 1u);
  CHECK(queue.push(frame(pool, 5, 10)) == BulkQueue::Pushed::refused);
}

TEST_CASE("what a full socket does not take is left to the loop, from the byte where it stopped") {
  Sockets sockets;
  SnapshotPool pool(1 << 18, DType::f32, 8);
  int woken = 0;
  BulkQueue queue(8, [&] { ++woken; });
  queue.stand(sockets.ours, true, false);
  uint64_t pushed = 0;
  while (queue.empty()) {
    ++pushed;
    REQUIRE(queue.push(frame(pool, pushed, (1 << 18) - 3)) != BulkQueue::Pushed::refused);
  }
  CHECK(woken == 1);
  ++pushed;
  CHECK(queue.push(frame(pool, pushed, 5)) == BulkQueue::Pushed::queued);  // not past the others
  std::thread loop([&] { write_all(queue, sockets.ours); });
  for (uint64_t number = 1; number <= pushed; ++number) {
    const auto came = read_frame(sockets.theirs);
    REQUIRE(came);
    CHECK(came->number == number);
  }
  loop.join();
}

TEST_CASE("a large frame that the kernel has taken and the other end has not is not taken again") {
  constexpr size_t kLarge = (1 << 18) + 1;
  constexpr size_t kLast = 1000;  // bytes, still in the socket
  for (const bool plain : {true, false}) {
    Sockets sockets;
    SnapshotPool pool(1 << 19, DType::f32, 8);
    BulkQueue queue(8, [] {});
    queue.stand(sockets.ours, plain, false);
    REQUIRE(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::queued);
    std::thread loop([&] { write_all(queue, sockets.ours); });
    std::vector<std::byte> read(sizeof(BulkRecord) + kLarge * sizeof(float) + sizeof(uint64_t));
    REQUIRE(read_all(sockets.theirs, read.data(), read.size() - kLast));
    loop.join();
    CHECK(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::refused);
    CHECK(queue.push(frame(pool, 2, kLarge)) == BulkQueue::Pushed::queued);
    REQUIRE(read_all(sockets.theirs, read.data(), kLast));
    CHECK(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::queued);  // it may be lost
  }
}

TEST_CASE("a large frame that waits or is being written is not taken again") {
  constexpr size_t kLarge = (1 << 18) + 1;
  SnapshotPool pool(1 << 19, DType::f32, 8);
  BulkQueue queue(8, [] {});
  CHECK(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::queued);
  CHECK(queue.push(frame(pool, 2, kLarge)) == BulkQueue::Pushed::queued);
  CHECK(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::refused);
  CHECK(queue.push(frame(pool, 2, kLarge)) == BulkQueue::Pushed::refused);
  REQUIRE(queue.take_pen());
  auto written = queue.take();
  REQUIRE(written);
  CHECK(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::refused);
  written = queue.take();
  REQUIRE(written);  // the first has left, and may have been lost
  CHECK(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::queued);
  written = queue.take();
  CHECK(queue.clear(false) == 0u);
  CHECK(queue.push(frame(pool, 1, kLarge)) == BulkQueue::Pushed::queued);  // its connection is gone

  auto spoiled = frame(pool, 3, kLarge);
  CHECK(queue.push({spoiled.header(), {spoiled.lease(), DType::f32, kLarge, 0}, 7}) ==
        BulkQueue::Pushed::queued);
  CHECK(queue.push(std::move(spoiled)) == BulkQueue::Pushed::queued);  // the whole one
  for (int k = 0; k < 2; ++k)
    CHECK(queue.push(frame(pool, 4, 10)) == BulkQueue::Pushed::queued);  // small ones cost little
}

TEST_CASE(
    "many threads push while a loop takes: every frame is whole, each thread's in its order") {
  constexpr size_t kThreads = 4, kEach = 200;
  Sockets sockets;
  SnapshotPool pool(1 << 18, DType::f32, 16);
  std::atomic<bool> over{false};
  std::atomic<int> wakes{0};
  BulkQueue queue(64, [&] {
    ++wakes;
    wakes.notify_one();
  });
  queue.stand(sockets.ours, true, false);
  std::thread loop([&] {
    for (int seen = 0; !over; wakes.wait(seen), seen = wakes)
      write_all(queue, sockets.ours);
  });
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(3, static_cast<uint32_t>(t), Purpose::test);
      for (size_t k = 0; k < kEach;) {
        Payload p{pool.take(), DType::f32, 1 + random.bits() % (1 << 18), 0};
        if (!p.lease) {
          std::this_thread::yield();
          continue;
        }
        std::memset(p.writable(DType::f32, p.count).data, static_cast<int>(t), 4 * p.count);
        k += queue.push({data(1000 * t + k, p.count), p, {}}) != BulkQueue::Pushed::refused;
      }
    });
  }
  std::array<size_t, kThreads> next{};
  size_t broken = 0;
  for (size_t k = 0; k < kThreads * kEach; ++k) {
    const auto came = read_frame(sockets.theirs);
    REQUIRE(came);
    const size_t t = came->number / 1000;
    broken += came->number % 1000 != next[t]++;
  }
  for (auto& thread : threads)
    thread.join();
  over = true;
  ++wakes;
  wakes.notify_one();
  loop.join();
  CHECK(broken == 0u);
}

TEST_CASE("a connection ends under a sending thread: the next one begins with a whole frame") {
  SnapshotPool pool(1 << 18, DType::f32, 4);
  const OutgoingPayload large = frame(pool, 1, 1 << 18), small = frame(pool, 2, 10);
  for (int round = 0; round < 300; ++round) {
    Sockets first, second;
    BulkQueue queue(8, [] {});
    queue.stand(first.ours, true, false);
    std::thread sender([&] { queue.push(large); });
    BulkRecord begun;
    REQUIRE(read_all(first.theirs, &begun, sizeof begun));
    queue.clear(false);
    queue.stand(second.ours, true, false);
    sender.join();
    CHECK(queue.push(small) == BulkQueue::Pushed::sent);
    const auto came = read_frame(second.theirs);
    REQUIRE(came);
    CHECK(*came == data(2, 10));
  }
}
