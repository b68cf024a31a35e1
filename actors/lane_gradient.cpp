#include "actors/lane_gradient.hpp"

#include <utility>

#include "kernels/check.hpp"
#include "kernels/ops.hpp"

namespace grapevine {

double gradient_or_zero(Objective& objective, int thread, int rank, uint64_t index, ConstVec x,
                        Vec g) {
  if (objective.has_gradients()) return objective.gradient(thread, rank, index, x, g);
  fill({}, 0, g);
  return 0;
}

bool LaneGradient::begin(DeviceShare& device) {
  g_ = device.gradients().take(lane_);
  loss_ = device.losses().take_host();
  return g_ && loss_ && device.fences().wait(lane_, job_.x.ready()) == Fate::ok;
}

bool LaneGradient::queue(DeviceShare& device, std::shared_ptr<Objective> objective, int thread) {
  objective_ = std::move(objective);
  thread_ = thread;
  const ConstVec shape = g_.vec();
  const Access accesses[] = {{job_.x.vec().data, shape.bytes(), Access::Mode::reads},
                             {shape.data, shape.bytes(), Access::Mode::writes},
                             {loss_.vec().data, sizeof(double), Access::Mode::writes}};
  const auto pass = [objective = objective_, thread, rank = job_.rank, index = job_.index,
                     size = shape.size, dtype = shape.dtype](void* native, void* const* at) {
    const ConstVec x(at[0], size, dtype);
    const Vec g(at[1], size, dtype);
    auto* const loss = static_cast<double*>(at[2]);
    if (native != nullptr)
      return objective->queue_gradient(thread, native, rank, index, x, g, loss);
    *loss = gradient_or_zero(*objective, thread, rank, index, x, g);
  };
  return device.device().launch(lane_, accesses, pass) == Fate::ok;
}

bool LaneGradient::end(DeviceShare& device) {
  if (device.fences().record(lane_, computed_) != Fate::ok) return false;
  g_.set_ready(computed_);
  loss_.set_ready(computed_);
  return true;
}

Computed LaneGradient::see() {
  g_.set_seen();
  loss_.set_seen();
  objective_->gradient_came(thread_, job_.rank);
  return {job_.index, *loss_.vec().as<double>(), 0, std::move(g_)};
}

}  // namespace grapevine
