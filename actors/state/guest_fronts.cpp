#include "actors/state/guest_fronts.hpp"

#include <cstring>
#include <utility>

namespace grapevine {

GuestFronts::Front GuestFronts::of(const Seat& seat) {
  const auto there = copies_of(seat);
  if (device_ == nullptr) return {there->front, seat->base, {&seat->finite, 1, DType::f64}};
  return {there->front, there->base, there->finite};
}

std::shared_ptr<GuestFronts::Copies> GuestFronts::copies_of(const Seat& seat) {
  std::erase_if(copies_, [](const auto& known) { return known.first.expired(); });
  std::shared_ptr<Copies>& copies = copies_[seat];
  if (!copies && device_ == nullptr) {
    copies = std::make_shared<Copies>(Copies{{seat->front.size, seat->front.dtype}, {}, {}});
  } else if (!copies) {
    const Execution execution = device_->execution();
    const auto made = [&] { return Buffer(execution, seat->front.size, seat->front.dtype); };
    copies = std::make_shared<Copies>(Copies{made(), made(), {execution, 1, DType::f64}});
  }
  return copies;
}

void GuestFronts::bring(int rank, const Seat& seat, std::function<void()> then) {
  const auto there = copies_of(seat);
  if (device_ == nullptr) {
    std::memcpy(there->front.vec().data, seat->front.data, seat->front.bytes());
    return then();
  }
  turns_.up(rank, seat->front, there->front, [seat, there, then = std::move(then)] { then(); });
}

void GuestFronts::hand_over(const Seat& seat, std::function<void()> then) {
  const auto there = copies_of(seat);
  if (device_ == nullptr) {
    std::memcpy(seat->front.data, there->front.vec().data, seat->front.bytes());
    return then();
  }
  const auto arrived = [seat, there, then = std::move(then), left = std::make_shared<int>(2)] {
    if (--*left == 0) then();
  };
  turns_.down(there->front, seat->front, arrived);
  turns_.down(there->finite, {&seat->finite, 1, DType::f64}, arrived);
}

}  // namespace grapevine
