#include "actors/compute/lane_gradient.hpp"

#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/passes/ops.hpp"

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
  if (!g_ || !loss_ || device.fences().wait(lane_, job_.x.ready()) != Fate::ok) return false;
  expected_ = device.silence().expect(SilenceWatch::Kind::gradient);
  return true;
}

bool LaneGradient::queue(DeviceShare& device, std::shared_ptr<Objective> objective, int thread) {
  objective_ = std::move(objective);
  thread_ = thread;
  const ConstVec shape = g_.vec();
  if (!objective_->has_gradients()) {
    const Execution lane{nullptr, &device.device(), lane_};
    fill(lane, 0, {const_cast<void*>(shape.data), shape.size, shape.dtype});
    return true;
  }
  const Access accesses[] = {{job_.x.vec().data, shape.bytes(), Access::Mode::reads},
                             {shape.data, shape.bytes(), Access::Mode::writes},
                             {loss_.vec().data, sizeof(double), Access::Mode::writes}};
  const auto pass = [objective = objective_, no_memory = no_memory_, thread, rank = job_.rank,
                     index = job_.index, size = shape.size,
                     dtype = shape.dtype](void* native, void* const* at) {
    const ConstVec x(at[0], size, dtype);
    const Vec g(at[1], size, dtype);
    auto* const loss = static_cast<double*>(at[2]);
    try {
      objective->queue_gradient(thread, native, rank, index, x, g, loss);
    } catch (const NoMemoryLeft&) {
      *no_memory = true;
      *loss = 0;
      if (native == nullptr) fill({}, 0, g);  // else it is never read
    }
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
  expected_ = {};
  Computed seen{job_.index, 0, 0, {}, no_memory_->load()};
  if (seen.no_memory) return seen;
  seen.g = std::move(g_);
  if (!objective_->has_gradients()) return seen;
  objective_->gradient_came(thread_, job_.rank);
  seen.loss = *loss_.vec().as<double>();
  return seen;
}

}  // namespace grapevine
