#include "models/guest.hpp"

#include <fmt/core.h>

#include <cstring>
#include <limits>
#include <utility>

#include "kernels/passes/ops.hpp"
#include "models/files/model_file.hpp"

namespace grapevine {

GuestObjective::GuestObjective(ParameterLayout layout, ParameterLayout aside, Buffer start,
                               Buffer statistics)
    : layout_(std::move(layout)),
      aside_(std::move(aside)),
      start_(std::move(start)),
      average_(std::move(statistics)) {
  GV_CHECK(start_.size() == layout_.size());
  GV_CHECK((layout_.dtype() == DType::f32 && start_.dtype() == DType::f32));
  GV_CHECK(average_.size() == aside_.size());
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
  const std::lock_guard lock(mutex_);
  const auto known = statistics_.find(rank);
  scale({}, 1, known == statistics_.end() ? average_ : known->second, out);
}

void GuestObjective::set_statistics(int rank, uint64_t, ConstVec now) {
  GV_CHECK(now.size == aside_.size());
  const std::lock_guard lock(mutex_);
  Buffer& own = statistics_[rank];
  if (own.size() != now.size) own = Buffer(now.size, DType::f32);
  scale({}, 1, now, own);
}

void GuestObjective::set_average_statistics(ConstVec average) {
  const std::lock_guard lock(mutex_);
  scale({}, 1, average, average_);
}

Status GuestObjective::save_model(const std::string& directory, ConstVec x) {
  const std::lock_guard lock(mutex_);
  std::vector<ModelTensor> tensors = tensors_of(layout_, x);
  for (ModelTensor& tensor : tensors_of(aside_, std::as_const(average_).vec()))
    tensors.push_back(std::move(tensor));
  if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
  return write_state_dict(directory + "/model.pt", tensors);
}

}  // namespace grapevine
