#include "models/network/flat_parameters.hpp"

#include <cmath>
#include <cstring>

namespace grapevine {
namespace {

constexpr size_t kViewsKept = 1024;  // flat vectors; more than the slots of any snapshot pool

}  // namespace

// A step never writes x, but from_blob has no read-only form.
at::Tensor view_of(const float* data, at::IntArrayRef shape, at::Device device) {
  const auto options = at::TensorOptions(at::kFloat).device(device);
  float* const writable = const_cast<float*>(data);
  if (device.is_cpu()) return at::from_blob(writable, shape, options);
  // Without a target LibTorch asks the driver, view by view, whose the address is.
  return at::for_blob(writable, shape).options(options).target_device(device).make_tensor();
}

FlatParameters::FlatParameters(const ParameterLayout& layout) : layout_(&layout) {
  for (const ParameterEntry& entry : layout.entries())
    tensors_.push_back(at::zeros(entry.shape, at::kFloat).set_requires_grad(true));
}

FlatParameters::FlatParameters(const ParameterLayout& layout, std::vector<at::Tensor> leaves)
    : layout_(&layout), tensors_(std::move(leaves)) {
  GV_CHECK(tensors_.size() == layout.entries().size());
}

void FlatParameters::move_to(at::Device device) {
  device_ = device;
  views_.clear();
  for (at::Tensor& leaf : tensors_) {
    leaf.mutable_grad() = at::Tensor();
    leaf.set_data(at::zeros(leaf.sizes(), leaf.options().device(device).requires_grad(false)));
  }
}

// A view holds an address and no memory, so one that outlives its vector is harmless until it is
// asked for again, and then the address is the new vector's.
const FlatParameters::Views& FlatParameters::views_of(const void* data) {
  const auto known = views_.find(data);
  if (known != views_.end()) return known->second;
  if (views_.size() >= kViewsKept) views_.clear();
  Views views;
  for (const ParameterEntry& entry : layout_->entries()) {
    views.push_back(view_of(static_cast<const float*>(data) + entry.offset, entry.shape, device_));
  }
  return views_.emplace(data, std::move(views)).first->second;
}

void FlatParameters::bind(ConstVec x) {
  GV_CHECK(x.size == layout_->size());
  const Views& views = views_of(x.as<float>());
  for (size_t k = 0; k < views.size(); ++k)
    tensors_[k].set_data(views[k]);
}

void FlatParameters::bind(ConstVec x, Vec g) {
  GV_CHECK(g.size == layout_->size());
  bind(x);
  const Views& into = views_of(g.as<float>());
  for (size_t k = 0; k < into.size(); ++k)
    tensors_[k].mutable_grad() = into[k];
  if (device_.is_cpu()) {
    std::memset(g.data, 0, g.bytes());
  } else {
    whole(g).zero_();
  }
}

at::Tensor FlatParameters::whole(Vec g) const {
  return view_of(g.as<float>(), {static_cast<int64_t>(g.size)}, device_);
}

void FlatParameters::finish_gradient(Vec g, double clip) const {
  float* flat = g.as<float>();
  for (size_t k = 0; k < tensors_.size(); ++k) {
    const float* expected = flat + layout_->entries()[k].offset;
    GV_CHECK(tensors_[k].grad().const_data_ptr<float>() == expected);
  }
  if (clip == 0) return;
  if (!device_.is_cpu()) {  // the host does not wait for the norm
    const at::Tensor all = whole(g);
    all.mul_((clip / all.norm()).clamp_max(1));
    return;
  }
  double squares = 0;
  for (size_t k = 0; k < g.size; ++k)
    squares += static_cast<double>(flat[k]) * flat[k];
  if (!(squares > clip * clip)) return;
  const float factor = static_cast<float>(clip / std::sqrt(squares));
  for (size_t k = 0; k < g.size; ++k)
    flat[k] *= factor;
}

}  // namespace grapevine
