#include "actors/state/ranks.hpp"

#include <utility>

namespace grapevine {

Ranks::Ranks(StateActor::base& by, StateDependencies dependencies, DeviceTurns::Owner waits)
    : owner(by),
      deps(std::move(dependencies)),
      method(method_named(deps.method)),
      execution(deps.device ? deps.device->execution() : Execution{deps.pool.get()}),
      turns(deps.device.get(), std::move(waits)),
      expected_(execution, deps.audits ? layout().size() : 0, DType::f64) {}

StateRank* Ranks::find(int rank) {
  const auto place = static_cast<size_t>(rank / deps.groups);
  return place < ranks_.size() && ranks_[place].rule ? &ranks_[place] : nullptr;
}

StateRank& Ranks::place_of(int rank) {
  const auto place = static_cast<size_t>(rank / deps.groups);
  if (ranks_.size() <= place) ranks_.resize(place + 1);
  return ranks_[place];
}

void Ranks::drop(int rank) {
  if (StateRank* here = find(rank)) *here = StateRank();
}

void Ranks::clear() {
  ranks_.clear();
  expected_ = Buffer();
}

Lease Ranks::slot(SnapshotPool& pool, Where where) {
  return deps.device ? pool.take(execution.stream, where) : pool.take();
}

Fence Ranks::queued(Where where) {
  Fence fence;
  if (deps.device) static_cast<void>(deps.device->fences().record(execution.stream, fence, where));
  return fence;
}

}  // namespace grapevine
