#include "actors/state/device_turns.hpp"

#include <utility>

namespace grapevine {

DeviceTurns::DeviceTurns(DeviceShare* device, Owner owner)
    : device_(device), owner_(std::move(owner)) {
  if (device_ == nullptr) return;
  ferry_ = device_->make_ferry(
      [this](const Fence& fence, std::function<void()> then) { when(fence, std::move(then)); });
}

void DeviceTurns::when(const Fence& fence, std::function<void()> then, Where where) {
  Fences& fences = device_->fences();
  if (!fence || fences.query(fence, where) == Fate::ok) return then();
  const uint64_t ticket = ++tickets_;
  awaited_[ticket] = {std::move(then), device_->silence().expect(SilenceWatch::Kind::pass)};
  look_soon();
  fences.when(fence, owner_.on_fence(ticket), where);
}

std::function<void()> DeviceTurns::arrived(uint64_t ticket) {
  auto awaited = awaited_.extract(ticket);
  return awaited.empty() ? nullptr : std::move(awaited.mapped().then);
}

void DeviceTurns::await(int rank, const Fence& fence, std::function<void()> then) {
  hold(rank);
  when(fence, [this, rank, then = std::move(then)] {
    owner_.guarded(rank, then);
    release(rank);
  });
}

void DeviceTurns::up(int rank, ConstVec host, Vec there, std::function<void()> then) {
  hold(rank);
  ferry_->up(host, there, [this, rank, then = std::move(then)] {
    owner_.guarded(rank, then);
    release(rank);
  });
}

void DeviceTurns::down(ConstVec there, Vec host, std::function<void()> then) {
  ferry_->down(there, host, std::move(then));
}

void DeviceTurns::lift(std::vector<ConstVec> host, std::function<void(std::vector<Buffer>&)> then) {
  auto lifted = std::make_shared<std::vector<Buffer>>();
  for (const ConstVec& v : host)
    lifted->emplace_back(device_->execution(), v.size, v.dtype);
  if (host.empty()) return then(*lifted);
  auto left = std::make_shared<size_t>(host.size());
  const auto arrived = [lifted, left, then = std::move(then)] {
    if (--*left == 0) then(*lifted);
  };
  for (size_t k = 0; k < host.size(); ++k)
    ferry_->up(host[k], (*lifted)[k], arrived);
}

void DeviceTurns::lower(std::vector<Buffer*> buffers, std::function<void()> then) {
  if (device_ == nullptr || buffers.empty()) return then();
  auto left = std::make_shared<size_t>(buffers.size());
  for (Buffer* const there : buffers) {
    auto host = std::make_shared<Buffer>(there->size(), there->dtype());
    ferry_->down(*there, *host, [there, host, left, then] {
      *there = std::move(*host);
      if (--*left == 0) then();
    });
  }
}

void DeviceTurns::with_room(std::function<void()> work) {
  if (device_ == nullptr) return work();
  const auto enter = [this, work = std::move(work)] {
    hold(kRoom);
    work();
  };
  is_held(kRoom) ? wait(kRoom, enter) : enter();
}

uint64_t DeviceTurns::add_answer(std::function<void()> answer) {
  pending_[++answers_] = std::move(answer);
  return answers_;
}

void DeviceTurns::look_soon() {
  if (device_ == nullptr || looks_ || is_closed_) return;
  if (!device_->silence().expects()) return;
  looks_ = true;
  owner_.look_later();
}

void DeviceTurns::look(double now_s) {
  looks_ = false;
  if (is_closed_) return;
  if (device_->silence().is_silent(now_s)) device_->device().give_up();
  look_soon();
}

void DeviceTurns::close(bool is_lost) {
  is_closed_ = true;
  if (is_lost) awaited_.clear();
}

void DeviceTurns::dismiss() {
  for (const auto& [number, answer] : std::exchange(pending_, {}))
    answer();
  let_go();
}

void DeviceTurns::clear() {
  afterwards_ = nullptr;
  awaited_.clear();
  pending_.clear();
  Turns::operator=({});
  ferry_.reset();
}

}  // namespace grapevine
