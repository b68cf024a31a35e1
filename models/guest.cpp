#include "models/guest.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/passes/ops.hpp"
#include "models/files/model_file.hpp"

namespace grapevine {

namespace {

Buffer copy_of(ConstVec from) {
  Buffer copy(from.size, from.dtype);
  scale({}, 1, from, copy);
  return copy;
}

/// Calls f(element of one, element of other); both have one type.
template <class Function>
void for_both(Vec one, ConstVec other, const Function& f) {
  GV_CHECK((one.size == other.size && one.dtype == other.dtype));
  for (size_t k = 0; k < one.size; ++k)
    one.dtype == DType::f32 ? f(one.as<float>()[k], other.as<float>()[k])
                            : f(one.as<double>()[k], other.as<double>()[k]);
}

/// The bytes of a view's elements, in the view's order. REQUIRES: the view covers all of `of`.
std::vector<char> elements_of(const TiedName& view, const ModelTensor& of) {
  const size_t size = size_of(of.type);
  std::vector<char> bytes(of.bytes());
  std::vector<int64_t> at(view.shape.size());
  for (size_t to = 0; to < bytes.size(); to += size) {
    int64_t from = 0;
    for (size_t d = 0; d < at.size(); ++d)
      from += at[d] * view.strides[d];
    std::memcpy(&bytes[to], static_cast<const char*>(of.data) + static_cast<size_t>(from) * size,
                size);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == view.shape[d];)
      at[d] = 0;
  }
  return bytes;
}

}  // namespace

GuestObjective::GuestObjective(ParameterLayout layout, ParameterLayout aside, Buffer start,
                               Buffer statistics, size_t wide_from, std::vector<TiedName> tied)
    : layout_(std::move(layout)),
      aside_(std::move(aside)),
      start_(std::move(start)),
      start_aside_(copy_of(statistics)),
      wide_from_(wide_from),
      tied_(std::move(tied)),
      average_(std::move(statistics)) {
  GV_CHECK(start_.size() == layout_.size());
  GV_CHECK((layout_.dtype() == DType::f32 && start_.dtype() == DType::f32));
  GV_CHECK((average_.size() == aside_.size() && average_.dtype() == aside_.dtype()));
}

void GuestObjective::initial_point(int, Vec x) const {
  GV_CHECK(x.size == start_.size());
  std::memcpy(x.as<float>(), start_.vec().data, x.bytes());
}

double GuestObjective::gradient(int, int, uint64_t, ConstVec, Vec) {
  GV_CHECK(has_gradients());
  return 0;
}

Evaluation GuestObjective::evaluate(int, int, ConstVec) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  return {kUnknown, kUnknown};
}

std::string GuestObjective::description() const {
  const auto counted = [](size_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("a guest's model: {} in {}", counted(layout_.size(), "parameter"),
                     counted(layout_.entries().size(), "tensor"));
}

void GuestObjective::read_statistics(int rank, Vec out) const {
  const Lock lock(mutex_);
  const auto known = statistics_.find(rank);
  scale({}, 1, known == statistics_.end() ? average_ : known->second, out);
}

bool GuestObjective::has_statistics(int rank) const {
  const Lock lock(mutex_);
  return statistics_.contains(rank);
}

void GuestObjective::read_for_mean(int rank, Vec out) const {
  read_statistics(rank, out);
  for_both(out, out, [](auto& element, auto value) { element = std::isfinite(value) ? value : 0; });
}

void GuestObjective::set_statistics(int rank, uint64_t gradients, ConstVec now) {
  GV_CHECK((now.size == aside_.size() && now.dtype == aside_.dtype()));
  if (gradients == 0) return;
  const Lock lock(mutex_);
  Buffer& own = statistics_[rank];
  if (own.size() != now.size) own = Buffer(now.size, now.dtype);
  scale({}, 1, now, own);
}

void GuestObjective::set_average_statistics(ConstVec average) {
  const Lock lock(mutex_);
  scale({}, 1, average, average_);
  put_masks(start_aside_, static_cast<int>(statistics_.size()), average_);
}

void GuestObjective::put_masks(ConstVec own, int ranks, Vec mean) {
  const double rounding = ranks * std::numeric_limits<double>::epsilon();
  for_both(mean, own, [&](auto& element, auto value) {
    const bool same = std::abs(element - value) <= rounding * std::abs(value);
    if (same || !std::isfinite(value)) element = value;
  });
}

Status GuestObjective::save_model(const std::string& directory, ConstVec x) {
  const Lock lock(mutex_);
  std::vector<ModelTensor> tensors = tensors_of(layout_, x);
  Buffer narrow(aside_.size(), DType::f32);
  size_t number = 0;
  for (ModelTensor& tensor : tensors_of(aside_, std::as_const(average_).vec())) {
    if (tensor.type == TensorType::f64 && number < wide_from_) {
      const ParameterEntry& entry = aside_.entries()[number];
      const auto* from = static_cast<const double*>(tensor.data);
      float* to = narrow.vec().as<float>() + entry.offset;
      std::copy_n(from, entry.size(), to);
      tensor = {entry.name, entry.shape, TensorType::f32, to};
    }
    tensors.push_back(std::move(tensor));
    ++number;
  }
  std::vector<std::vector<char>> views;
  for (const TiedName& tied : tied_) {
    const auto of = std::ranges::find(tensors, tied.of, &ModelTensor::name);
    GV_CHECK(of != tensors.end());
    views.push_back(elements_of(tied, *of));
    tensors.push_back({tied.name, tied.shape, of->type, views.back().data()});
  }
  if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
  return write_state_dict(directory + "/model.pt", tensors);
}

}  // namespace grapevine
