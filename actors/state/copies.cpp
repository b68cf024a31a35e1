#include "actors/state/copies.hpp"

#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

Copies::Copies(Ranks& ranks) : ranks_(ranks), fronts_(ranks.deps.device.get(), ranks.turns) {
  const ParameterLayout& layout = ranks.layout();
  const size_t count = ranks.deps.pools.snapshots;
  snapshots_ = ranks.deps.device
                   ? ranks.deps.device->make_pool(layout.size(), layout.dtype(), count)
                   : std::make_unique<SnapshotPool>(layout.size(), layout.dtype(), count);
}

Lease Copies::read(StateRank& rank) {
  Lease lease = slot();
  if (!lease) return lease;
  if (LocalSteps* const local = rank.local()) {
    if (local->taken() == 0) local->begin(ranks_.now(), *rank.rule);
    scale(ranks_.execution, 1, local->front(), lease.writable());
  } else {
    rank.rule->read(ranks_.now(), lease.writable());
  }
  if (ranks_.deps.device) lease.set_ready(ranks_.queued());
  return lease;
}

void Copies::send(StateRank& rank, Lease copy) {
  GV_CHECK(static_cast<bool>(copy));
  ranks_.owner.send(rank.worker, Parameters{.x = std::move(copy),
                                            .gradients = rank.gradients,
                                            .seat = {},
                                            .own_s = rank.own_s(),
                                            .saved_from_s = ranks_.saved_from_s,
                                            .saved_until_s = ranks_.saved_until_s});
}

void Copies::pay(StateRank& rank) {
  StateRank::Guest* const guest = rank.guest();
  if (guest != nullptr && guest->waits != nullptr)
    return show(rank, std::exchange(guest->waits, nullptr));
  send(rank, read(rank));
}

void Copies::fetch(const Fetch& f) {
  StateRank* rank = ranks_.find(f.rank);
  if (rank == nullptr) return;
  // If no lease is left, the worker has asked before and waits for those copies.
  if (Lease copy = read(*rank)) send(*rank, std::move(copy));
}

void Copies::show(StateRank& rank, std::shared_ptr<GuestSeat> seat) {
  if (ranks_.deps.device == nullptr) {  // read() only writes, whatever the script does meanwhile
    rank.rule->read(ranks_.now(), seat->front);
    rank.rule->read(ranks_.now(), seat->base);
    return answer(rank, std::move(seat), rank.gradients);
  }
  const auto [front, base, finite] = fronts_.of(seat);
  rank.rule->read(ranks_.now(), front);
  rank.rule->read(ranks_.now(), base);
  hand_over(rank, std::move(seat));
}

void Copies::hand_over(StateRank& rank, std::shared_ptr<GuestSeat> seat) {
  fronts_.hand_over(seat, [this, number = rank.rank, seat, gradients = rank.gradients] {
    if (const StateRank* here = ranks_.find(number)) answer(*here, seat, gradients);
  });
}

void Copies::answer(const StateRank& rank, std::shared_ptr<GuestSeat> seat, uint64_t gradients) {
  const StateRank::Guest* const guest = rank.guest();
  const uint64_t exchanges = guest != nullptr ? guest->exchanges : 0;
  ranks_.owner.send(rank.worker, Parameters{{}, gradients, std::move(seat), exchanges});
}

}  // namespace grapevine
