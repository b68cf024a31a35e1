#include "tests/device/threaded.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine::testing {

Threaded::Line::Line(size_t most) : work_(most), thread_([this] { serve(); }) {}

Threaded::Line::~Line() {
  push({});
  thread_.join();
}

void Threaded::Line::push(std::function<void()> work) {
  const size_t place = queued_.load(std::memory_order_relaxed);
  GV_CHECK(place < work_.size());
  work_[place] = std::move(work);
  queued_.store(place + 1, std::memory_order_release);
  queued_.notify_one();
}

/// Nothing is the end.
void Threaded::Line::serve() {
  for (;; ++done_) {
    while (queued_.load(std::memory_order_acquire) == done_)
      queued_.wait(done_, std::memory_order_acquire);
    const std::function<void()> work = std::exchange(work_[done_], {});
    if (!work) return;
    work();
  }
}

Threaded::Threaded(size_t most) : most_(most), tells_(most) {}
Threaded::~Threaded() = default;

Fate Threaded::allocate(size_t bytes, Block::Kind kind, Block& out) {
  if (kind == Block::Kind::pinned) {
    out = {static_cast<std::byte*>(std::malloc(bytes)), bytes, kind};
    return out.data != nullptr ? Fate::ok : Fate::out_of_memory;
  }
  const Descriptor made(::memfd_create("device", MFD_CLOEXEC));
  if (!made || ::ftruncate(made.fd(), static_cast<off_t>(std::max<size_t>(1, bytes))) != 0)
    return Fate::out_of_memory;
  const Fate fate = open(made.fd(), bytes, out);
  if (fate == Fate::ok) out.kind = kind;
  return fate;
}

Fate Threaded::free(const Block& block, Where) {
  if (block.kind == Block::Kind::pinned) {
    std::free(block.data);
    return Fate::ok;
  }
  GV_CHECK(memory_.erase(block.data) == 1u);
  ::munmap(block.data, std::max<size_t>(1, block.bytes));
  return Fate::ok;
}

Fate Threaded::share(const Block& block, int& descriptor) {
  GV_CHECK((block.kind == Block::Kind::shared));
  descriptor = ::fcntl(memory_.at(block.data).fd(), F_DUPFD_CLOEXEC, 0);
  return descriptor >= 0 ? Fate::ok : Fate::out_of_memory;
}

Fate Threaded::open(int descriptor, size_t bytes, Block& out) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0 || static_cast<size_t>(about.st_size) < bytes)
    return Fate::out_of_memory;
  void* const data = ::mmap(nullptr, std::max<size_t>(1, bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                            descriptor, 0);
  if (data == MAP_FAILED) return Fate::out_of_memory;
  out = {static_cast<std::byte*>(data), bytes, Block::Kind::device};
  memory_[out.data] = Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  return Fate::ok;
}

Fate Threaded::make_stream(bool, Stream& out) {
  out.id = static_cast<uint32_t>(streams_.size());
  streams_.push_back(std::make_unique<Line>(most_));
  return Fate::ok;
}

Fate Threaded::make_event(Event& out) {
  out.id = static_cast<uint32_t>(events_.size());
  events_.emplace_back();
  return Fate::ok;
}

Fate Threaded::record(Event event, Stream stream, Where) {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  events_[event.id] = done;
  streams_[stream.id]->push([done] {
    done->store(true, std::memory_order_release);
    done->notify_all();
  });
  return Fate::ok;
}

Fate Threaded::wait(Stream stream, Event event, Where) {
  if (const Done done = events_[event.id])
    streams_[stream.id]->push([done] { done->wait(false, std::memory_order_acquire); });
  return Fate::ok;
}

Fate Threaded::query(Event event, Where) {
  const Done& done = events_[event.id];
  return !done || done->load(std::memory_order_acquire) ? Fate::ok : Fate::later;
}

Fate Threaded::copy(Stream stream, void* to, const void* from, size_t bytes, Where) {
  streams_[stream.id]->push([=] { std::memcpy(to, from, bytes); });
  return Fate::ok;
}

Fate Threaded::launch(Stream stream, std::span<const Access> accesses, Body body, Where) {
  std::vector<void*> where;
  for (const Access& a : accesses)
    where.push_back(const_cast<void*>(a.data));
  streams_[stream.id]->push(
      [where = std::move(where), body = std::move(body)] { body(nullptr, where.data()); });
  return Fate::ok;
}

void Threaded::when(Event event, std::function<void(Fate)> then, Where) {
  tells_.push([done = events_[event.id], then = std::move(then)] {
    if (done) done->wait(false, std::memory_order_acquire);
    then(Fate::ok);
  });
}

Fate Threaded::drain() {
  for (const std::unique_ptr<Line>& stream : streams_) {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    stream->push([done] {
      done->store(true, std::memory_order_release);
      done->notify_all();
    });
    done->wait(false, std::memory_order_acquire);
  }
  return Fate::ok;
}

}  // namespace grapevine::testing
