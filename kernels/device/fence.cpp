#include "kernels/device/fence.hpp"

#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

struct Fences::Pool {
  Mutex mutex;
  std::vector<Event> free GV_GUARDED_BY(mutex);

  bool take(Event& out) {
    const Lock lock(mutex);
    if (free.empty()) return false;
    out = free.back();
    free.pop_back();
    return true;
  }
  void give(Event event) {
    const Lock lock(mutex);
    free.push_back(event);
  }
};

struct Fenced {
  Event event;
  Stream stream;
};

Fences::Fences(Device& device) : device_(device), pool_(std::make_shared<Pool>()) {}
Fences::~Fences() = default;

Fate Fences::make_stream(Kind kind, Stream& out) {
  const Fate fate = device_.make_stream(kind == Kind::shared, out);
  if (fate != Fate::ok) return fate;
  if (kinds_.size() <= out.id) kinds_.resize(out.id + 1);
  kinds_[out.id] = kind;
  return fate;
}

Fate Fences::record(Stream stream, Fence& out, Where where) {
  Event event;
  if (!pool_->take(event)) {
    if (const Fate fate = device_.make_event(event); fate != Fate::ok) return fate;
    ++made_;
  }
  const Fate fate = device_.record(event, stream, where);
  Fence fence(new Fenced{event, stream}, [pool = pool_](const Fenced* last) {
    pool->give(last->event);
    delete last;
  });
  if (fate == Fate::ok) out = std::move(fence);
  return fate;
}

Fate Fences::wait(Stream stream, const Fence& fence, Where where) {
  if (!fence || fence->stream == stream) return Fate::ok;
  const bool is_shared = kinds_.at(stream.id) == Kind::shared;
  GV_CHECK((!is_shared || kinds_.at(fence->stream.id) == Kind::shared));
  return device_.wait(stream, fence->event, where);
}

Fate Fences::query(const Fence& fence, Where where) {
  return fence ? device_.query(fence->event, where) : Fate::ok;
}

void Fences::when(const Fence& fence, std::function<void(Fate)> then, Where where) {
  GV_CHECK((fence != nullptr));
  device_.when(
      fence->event, [fence, then = std::move(then)](Fate fate) { then(fate); }, where);
}

bool Fences::same_stream(const Fence& a, const Fence& b) {
  return a && b && a->stream == b->stream;
}

}  // namespace grapevine
