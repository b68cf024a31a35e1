#include "kernels/passes/workspace.hpp"

#include <algorithm>
#include <memory>
#include <new>

#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

namespace {

constexpr size_t kApart = 256;  // the least distance of two ranges in bytes

bool same(const ConstVec& a, const ConstVec& b) {
  return a.data == b.data && a.size == b.size && a.dtype == b.dtype;
}

bool same(const Question& a, const Question& b) {
  return a.what == b.what && a.moment == b.moment && same(a.x, b.x) && same(a.y, b.y);
}

}  // namespace

Buffer::Buffer(const Execution& on, size_t size, DType dtype) {
  if (on.device == nullptr) {
    *this = Buffer(size, dtype);
    return;
  }
  GV_CHECK((on.workspace != nullptr));
  const size_t bytes = size * size_of(dtype);
  void* const there = on.workspace->take(bytes);
  data_ = new Stretch{there, on.workspace};
  size_ = size;
  dtype_ = dtype;
  home_ = Home::workspace;
  const size_t words = (bytes + sizeof(float) - 1) / sizeof(float);
  fill(on, 0, {there, words, DType::f32});  // also bytes: ranges are complete words
}

void Buffer::give_back() {
  const std::unique_ptr<Stretch> stretch(static_cast<Stretch*>(data_));
  stretch->home->give(stretch->data);
}

Workspace::Workspace(Device& device, Fences& fences, Stream stream, const Block& memory,
                     const Block& pinned, size_t askings)
    : device_(device),
      fences_(fences),
      execution_{nullptr, &device, stream, this},
      memory_(memory),
      numbers_(fences, pinned, kNumbersOfSlot, DType::f64, askings) {
  free_[memory.data] = memory.bytes;
}

Workspace::~Workspace() = default;

size_t Workspace::bytes_for(size_t askings) {
  return SnapshotPool::bytes_for(kNumbersOfSlot, DType::f64, askings);
}

void* Workspace::take(size_t bytes) {
  const size_t wanted = std::max<size_t>(1, (bytes + kApart - 1) / kApart) * kApart;
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [wanted](const auto& gap) { return gap.second >= wanted; });
  if (found == free_.end()) throw std::bad_alloc();
  std::byte* const first = found->first;
  const size_t left = found->second - wanted;
  free_.erase(found);
  if (left > 0) free_[first + wanted] = left;
  taken_[first] = wanted;
  in_use_ += wanted;
  most_ = std::max(most_, in_use_);
  return first;
}

void Workspace::give(void* data) {
  const auto taken = taken_.find(static_cast<std::byte*>(data));
  GV_CHECK((taken != taken_.end()));
  auto [first, bytes] = *taken;
  taken_.erase(taken);
  in_use_ -= bytes;
  const auto after = free_.lower_bound(first);
  if (after != free_.end() && first + bytes == after->first) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto behind = free_.lower_bound(first);
  if (behind != free_.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second == first) {
      before->second += bytes;
      return;
    }
  }
  free_[first] = bytes;
}

double Workspace::number_of(const Question& question) {
  GV_CHECK((mode_ != Mode::none));
  auto& known = inquiry_->questions_;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const Question& q) { return same(q, question); });
  const auto place = static_cast<size_t>(found - known.begin());
  if (mode_ == Mode::answers) {
    GV_CHECK(place < known.size());
    return inquiry_->slots_[place / kNumbersOfSlot].vec().as<double>()[place % kNumbersOfSlot];
  }
  if (place < known.size()) return 1;
  if (place % kNumbersOfSlot == 0) {
    inquiry_->slots_.push_back(numbers_.take_host());
    if (!inquiry_->slots_.back()) throw std::bad_alloc();
  }
  known.push_back(question);
  queue(question, inquiry_->slots_.back().writable().part(place % kNumbersOfSlot, 1));
  return 1;
}

void Workspace::queue(const Question& q, Vec result) {
  if (q.what == Question::What::number) return tell(execution_, q.x, result);
  const size_t blocks = reduction_blocks(q.x.size);
  if (blocks > blocks_.size) {
    if (blocks_) give(blocks_.data);
    blocks_ = {take(blocks * sizeof(double)), blocks, DType::f64};
  }
  const Vec partial = blocks_.part(0, blocks);
  if (q.what == Question::What::dot) return dot(execution_, q.x, q.y, partial, result);
  square_distance(execution_, q.x, q.y, partial, result);
}

void Workspace::close(Inquiry& inquiry) {
  if (inquiry.empty()) return;
  if (fences_.record(execution_.stream, inquiry.ready_) != Fate::ok) return;
  for (Lease& slot : inquiry.slots_)
    slot.set_ready(inquiry.ready_);
}

void Workspace::open(Inquiry& inquiry) {
  size_t left = inquiry.questions_.size();
  for (Lease& slot : inquiry.slots_) {
    slot.set_seen();
    const size_t count = std::min(left, kNumbersOfSlot);
    device_.touch({slot.vec().data, count * sizeof(double), Access::Mode::reads});
    left -= count;
  }
}

}  // namespace grapevine
