// Buffers, leases, fork and join.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "kernels/base/fork_join.hpp"
#include "kernels/memory/shared_memory.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/tools.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using grapevine::testing::last_words;

TEST_CASE("a buffer is zeroed, aligned to 64 bytes and writable to its last element") {
  for (const size_t size : {0u, 1u, 17u, 4095u, 4096u, 300000u, 524287u, 524288u, 2000003u}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Buffer buffer(size, dtype);
      REQUIRE(static_cast<bool>(buffer));
      CHECK(buffer.size() == size);
      CHECK(buffer.vec().bytes() == size * size_of(dtype));
      CHECK(reinterpret_cast<uintptr_t>(buffer.vec().data) % 64 == 0);
      auto* bytes = static_cast<unsigned char*>(buffer.vec().data);
      size_t others = 0;
      for (size_t i = 0; i < buffer.vec().bytes(); ++i) {
        others += bytes[i] != 0;
        bytes[i] = 0xff;
      }
      CHECK(others == 0);
    }
  }
}

TEST_CASE("a buffer moves, and the one it came from is empty") {
  for (const size_t size : {100u, 1000000u}) {
    Buffer a(size, DType::f64);
    a.vec().as<double>()[size - 1] = 5;
    const void* data = a.vec().data;
    Buffer b(std::move(a));
    CHECK(b.vec().data == data);
    CHECK_FALSE(static_cast<bool>(a));  // NOLINT: that is the claim
    CHECK(a.size() == 0);
    Buffer c(3, DType::f32);
    c = std::move(b);
    CHECK(c.dtype() == DType::f64);
    CHECK(c.vec().as<double>()[size - 1] == 5);
    c = Buffer();
    CHECK_FALSE(static_cast<bool>(c));
  }
}

TEST_CASE("a buffer of 16 MB lies on huge pages where the kernel grants them on request") {
  Buffer buffer(4000000, DType::f32);
  for (size_t i = 0; i < buffer.size(); i += 1024)
    buffer.vec().as<float>()[i] = 1;
  std::string word;
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::getline(setting, word);
  if (word.find("[madvise]") == std::string::npos && word.find("[always]") == std::string::npos) {
    return test::skipped("transparent huge pages are off here");
  }
  // The mapping's line in smaps, then its flags: "hg" is set by the request, whether or not pages
  // were free.
  const auto address = reinterpret_cast<uintptr_t>(buffer.vec().data);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false, asked = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) {
      inside = first <= address && address < last;
    } else if (inside && line.rfind("VmFlags:", 0) == 0) {
      asked = line.find(" hg") != std::string::npos;
    }
  }
  CHECK(asked);
}

TEST_CASE("a pool hands out its capacity, then empty leases, and a returned slot again") {
  SnapshotPool pool(100, DType::f64, 3);
  CHECK(pool.capacity() == 3);
  CHECK(pool.in_use() == 0);
  Lease a = pool.take(), b = pool.take();
  {
    const Lease c = pool.take();
    CHECK(static_cast<bool>(c));
    CHECK(pool.in_use() == 3);
    CHECK_FALSE(static_cast<bool>(pool.take()));
  }
  CHECK(pool.in_use() == 2);
  CHECK(static_cast<bool>(pool.take()));
  CHECK(a.vec().data != b.vec().data);
  CHECK(a.vec().size == 100);
  CHECK_FALSE(static_cast<bool>(SnapshotPool(100, DType::f64, 0).take()));
}

TEST_CASE("a slot returns with its last lease, not before") {
  SnapshotPool pool(4, DType::f32, 1);
  Lease a = pool.take();
  a.set_phase(2.5);
  a.writable().as<float>()[3] = 9;
  Lease b = a;
  Lease c = std::move(a);
  CHECK_FALSE(static_cast<bool>(a));  // NOLINT: that is the claim
  CHECK(c.vec().data == b.vec().data);
  CHECK(b.phase() == 2.5);
  b = Lease();
  CHECK(pool.in_use() == 1);
  CHECK(c.vec().as<float>()[3] == 9);
  Lease& self = c;
  c = self;
  CHECK(pool.in_use() == 1);
  c = Lease();
  CHECK(pool.in_use() == 0);
  CHECK(pool.take().phase() == 0);
}

TEST_CASE("a snapshot that others can read is not writable, and an empty lease is not readable") {
  SnapshotPool pool(4, DType::f32, 1);
  Lease a = pool.take();
  const Lease b = a;
  CHECK_THAT(last_words([&] { a.writable(); }), Catch::Contains("2 == 1"));
  CHECK_THAT(last_words([&] { a.set_phase(1); }), Catch::Contains("2 == 1"));
  CHECK_THAT(last_words([&] { Lease().vec(); }), Catch::Contains("slot_ != nullptr"));
}

TEST_CASE("a shared slot is seen by whoever maps it, read-only and of one size for ever") {
  SnapshotPool pool(1000, DType::f64, 1, SnapshotPool::Memory::shared);
  Lease a = pool.take();
  REQUIRE(a.shared() != nullptr);
  a.writable().as<double>()[999] = 4;
  const auto seen = SharedMemory::map(a.shared()->fd(), 8000);
  REQUIRE(seen);
  CHECK(static_cast<const double*>((*seen)->data())[999] == 4);
  a.writable().as<double>()[999] = 5;
  CHECK(static_cast<const double*>((*seen)->data())[999] == 5);
  CHECK(::ftruncate(a.shared()->fd(), 0) != 0);
  CHECK(::mmap(nullptr, 8000, PROT_READ | PROT_WRITE, MAP_SHARED, a.shared()->fd(), 0) ==
        MAP_FAILED);
  const auto refusal = SharedMemory::map(a.shared()->fd(), 7999);
  REQUIRE(!refusal);
  CHECK(refusal.error().message == "shared memory refused: 8000 bytes, accepted: 1 to 7999");
  CHECK_FALSE(SharedMemory::map(0, 8000));
  SnapshotPool own(1000, DType::f64, 1);
  CHECK(own.take().shared() == nullptr);
}

TEST_CASE("memory that is made for all to write has one size for ever and is everybody's") {
  const auto made = SharedMemory::make(8000, SharedMemory::Writers::all);
  REQUIRE(made != nullptr);
  void* theirs = ::mmap(nullptr, 8000, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd(), 0);
  REQUIRE(theirs != MAP_FAILED);
  static_cast<double*>(theirs)[999] = 4;
  CHECK(static_cast<const double*>(made->data())[999] == 4);
  CHECK(::ftruncate(made->fd(), 0) != 0);
  CHECK(::ftruncate(made->fd(), 16000) != 0);
  ::munmap(theirs, 8000);
}

TEST_CASE(
    "memory that is taken as it is written is none before, and stays what it is when gathered") {
  constexpr size_t kBytes = size_t{6} << 20;  // three huge pages
  const auto made =
      SharedMemory::make(kBytes, SharedMemory::Writers::all, SharedMemory::Pages::as_written);
  REQUIRE(made != nullptr);
  struct stat about {};
  REQUIRE(::fstat(made->fd(), &about) == 0);
  CHECK(about.st_blocks == 0);
  auto* const bytes = static_cast<char*>(made->data());
  std::memset(bytes, 7, kBytes - 4096);
  CHECK_FALSE(made->is_filled());
  std::memset(bytes, 7, kBytes);
  CHECK(made->is_filled());
  made->gather();
  CHECK(made->is_filled());
  CHECK(std::count(bytes, bytes + kBytes, 7) == kBytes);
}

TEST_CASE("a retired slot leaves its memory to those who map it and gets another") {
  SnapshotPool pool(10, DType::f32, 1, SnapshotPool::Memory::shared);
  Lease a = pool.take();
  a.writable().as<float>()[9] = 4;
  const auto seen = SharedMemory::map(a.shared()->fd(), 40);
  REQUIRE(seen);
  const uint64_t number = a.shared()->number();
  a.retire();
  a = {};
  a = pool.take();
  CHECK(a.shared()->number() != number);
  a.writable().as<float>()[9] = 5;
  CHECK(static_cast<const float*>((*seen)->data())[9] == 4);
}

TEST_CASE("a pool pins memory as it is first taken, and unpins what is retired or ends with it") {
  std::set<void*> pinned;
  const Pinner pinner{[&](const Access& a) {
                        return a.bytes == 40 && pinned.insert(const_cast<void*>(a.data)).second;
                      },
                      [&](void* data) { CHECK(pinned.erase(data) == 1); }};
  for (const auto memory : {SnapshotPool::Memory::own, SnapshotPool::Memory::shared}) {
    std::optional<SnapshotPool> pool(std::in_place, 10, DType::f32, 2, memory, pinner);
    CHECK(pinned.empty());
    Lease a = pool->take();
    CHECK(a.is_pinned());
    CHECK(pinned == std::set<void*>{a.writable().data});
    a = {};
    a = pool->take();
    CHECK(pinned.size() == 1);
    const Lease b = pool->take();
    CHECK(pinned.size() == 2);
    a.retire();
    a = {};
    CHECK(pinned.size() == (memory == SnapshotPool::Memory::shared ? 1 : 2));
    a = pool->take();
    CHECK(a.is_pinned());
    pool.reset();
    CHECK(pinned.size() == 2);
    a = {};
  }
  CHECK(pinned.empty());
  SnapshotPool refused(10, DType::f32, 1, SnapshotPool::Memory::own,
                       {[](const Access&) { return false; }, [](void*) { CHECK(false); }});
  CHECK_FALSE(refused.take().is_pinned());
}

TEST_CASE(
    "a lease is pinned as far as it is used, another process's memory whole and for reading") {
  std::vector<std::pair<size_t, Access::Mode>> asked;
  bool refuses = false;
  int pinned = 0;
  const Pinner pinner{[&](const Access& a) {
                        asked.emplace_back(a.bytes, a.mode);
                        pinned += !refuses;
                        return !refuses;
                      },
                      [&](void* data) { pinned -= *static_cast<volatile char*>(data) == 0; }};
  using Asked = decltype(asked);
  {
    SnapshotPool pool(100, DType::bytes, 1);
    for (const size_t bytes : {10, 10, 12, 5, 100}) {
      CHECK(pool.take().pin(bytes, pinner));
      CHECK(pinned == 1);
    }
    constexpr auto kBoth = Access::Mode::updates;
    CHECK(asked == Asked{{10, kBoth}, {20, kBoth}, {100, kBoth}});
    CHECK(pool.take().is_pinned());
  }
  CHECK(pinned == 0);
  asked.clear();
  const auto theirs = SharedMemory::make(40);
  auto mapped = *SharedMemory::map(theirs->fd(), 40);
  for (int times = 0; times < 2; ++times)
    CHECK(Lease::of(mapped, 8, [] {}).pin(8, pinner));
  CHECK(asked == Asked{{40, Access::Mode::reads}});
  CHECK(pinned == 1);
  mapped = nullptr;
  CHECK(pinned == 0);
  asked.clear();
  refuses = true;
  SnapshotPool refused(100, DType::bytes, 1);
  for (int times = 0; times < 2; ++times)
    CHECK_FALSE(refused.take().pin(10, pinner));
  CHECK(asked.size() == 1);
  CHECK_FALSE(Lease::of(ConstVec(&refuses, 1, DType::bytes), [] {}).pin(1, pinner));
}

TEST_CASE("a lease on another's memory tells once when the last one goes, and is not writable") {
  const float x[2] = {1, 2};
  int told = 0;
  Lease a = Lease::of({x, 2, DType::f32}, [&] { ++told; });
  Lease b = a;
  a = {};
  CHECK(b.vec().as<float>()[1] == 2);
  CHECK_THAT(last_words([&] { b.writable(); }), Catch::Contains("lent == nullptr"));
  CHECK(told == 0);
  b = {};
  CHECK(told == 1);
}

TEST_CASE("leases outlive their pool") {
  std::optional<SnapshotPool> pool(std::in_place, 1000000, DType::f64, 2);
  Lease a = pool->take();
  a.writable().as<double>()[999999] = 4;
  pool.reset();
  const Lease b = a;
  a = Lease();
  CHECK(b.vec().as<double>()[999999] == 4);
}

TEST_CASE("leases cross threads: nobody reads a slot that another writes, and all come home") {
  SnapshotPool pool(64, DType::f64, 5);
  std::mutex mutex;
  std::vector<Lease> shared;
  std::atomic<int> torn{0}, empty{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3000; ++round) {
        if (Lease mine = pool.take()) {
          const double value = t * 1e6 + round;
          mine.set_phase(value);
          for (int i = 0; i < 64; ++i)
            mine.writable().as<double>()[i] = value;
          const std::lock_guard lock(mutex);
          if (shared.size() < 3) {
            shared.push_back(mine);
          } else {
            std::swap(shared[static_cast<size_t>(round) % 3], mine);
          }
        } else {
          ++empty;
        }
        Lease other;
        {
          const std::lock_guard lock(mutex);
          if (!shared.empty()) other = shared[static_cast<size_t>(round + t) % shared.size()];
        }
        if (!other) continue;
        for (int i = 0; i < 64; ++i)
          torn += other.vec().as<double>()[i] != other.phase();
      }
    });
  }
  for (auto& thread : threads)
    thread.join();
  CHECK(torn == 0);
  shared.clear();
  CHECK(pool.in_use() == 0);
  CHECK(empty < 4 * 3000);
}

TEST_CASE("fork and join covers a range once, in whole grains, the same way each time") {
  using Parts = std::set<std::pair<size_t, size_t>>;
  for (const int threads : {1, 2, 3, 7}) {
    ForkJoin pool(threads);
    CHECK(pool.threads() == threads);
    for (const size_t size : {0u, 1u, 99u, 100u, 101u, 250u, 1234567u}) {
      std::mutex mutex;
      Parts parts, again;
      for (Parts* seen : {&parts, &again}) {
        pool.run(size, 100, [&](size_t first, size_t last) {
          const std::lock_guard lock(mutex);
          seen->insert({first, last});
        });
      }
      CHECK(parts == again);
      CHECK(parts.size() <= static_cast<size_t>(threads));
      if (size == 1234567) CHECK(parts.size() == static_cast<size_t>(threads));
      size_t end = 0;
      for (const auto& [first, last] : parts) {
        CHECK(first == end);
        CHECK(first % 100 == 0);
        CHECK(first < last);
        end = last;
      }
      CHECK(end == size);
    }
  }
}

TEST_CASE("fork and join really runs on its threads, and with one thread in the caller") {
  const auto threads_seen = [](int threads) {
    ForkJoin pool(threads);
    std::mutex mutex;
    std::set<std::thread::id> ids;
    pool.run(100, 1, [&](size_t, size_t) {
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
    return ids;
  };
  CHECK(threads_seen(3).size() == 3);
  CHECK(threads_seen(1) == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("callers of one fork and join take turns and each gets its whole range") {
  ForkJoin pool(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      std::vector<int> seen(1000);
      for (int round = 1; round <= 200; ++round) {
        pool.run(seen.size(), 10, [&](size_t first, size_t last) {
          for (size_t i = first; i < last; ++i)
            ++seen[i];
        });
        for (const int s : seen)
          wrong += s != round;
      }
    });
  }
  for (auto& caller : callers)
    caller.join();
  CHECK(wrong == 0);
}
