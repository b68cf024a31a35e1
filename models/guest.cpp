#include "models/guest.hpp"

#include <cstring>
#include <limits>
#include <utility>

#include "models/model_file.hpp"

namespace grapevine {

GuestObjective::GuestObjective(ParameterLayout layout, ParameterLayout aside, Buffer start)
    : layout_(std::move(layout)),
      aside_(std::move(aside)),
      start_(std::move(start)),
      aside_values_(aside_.size(), DType::f32) {
  GV_CHECK(start_.size() == layout_.size());
  GV_CHECK((layout_.dtype() == DType::f32 && start_.dtype() == DType::f32));
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
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  return "a guest's model: " + counted(layout_.size(), "parameter") + " in " +
         counted(layout_.entries().size(), "tensor");
}

Status GuestObjective::save_model(const std::string& directory, ConstVec x) {
  std::vector<ModelTensor> tensors = tensors_of(layout_, x);
  for (ModelTensor& tensor : tensors_of(aside_, std::as_const(aside_values_).vec()))
    tensors.push_back(std::move(tensor));
  if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
  return write_state_dict(directory + "/model.pt", tensors);
}

void GuestObjective::set_aside(ConstVec values) {
  GV_CHECK(values.size == aside_values_.size());
  if (values.size > 0) std::memcpy(aside_values_.vec().as<float>(), values.data, values.bytes());
}

}  // namespace grapevine
