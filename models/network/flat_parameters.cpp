#include "models/network/flat_parameters.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace grapevine {
namespace {

constexpr size_t kViewsKept = 1024;  // more flat vectors than the slots of any snapshot pool
constexpr size_t kAlignment = 16;    // bytes, on a GPU

}  // namespace

// A step never writes x, but from_blob has no const form.
at::Tensor view_of(const float* data, at::IntArrayRef shape, at::Device device) {
  const auto options = at::TensorOptions(at::kFloat).device(device);
  float* const writable = const_cast<float*>(data);
  if (device.is_cpu()) return at::from_blob(writable, shape, options);
  // Without a target device, LibTorch asks the driver about each address.
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
    leaf.set_data(at::zeros(leaf.sizes(), leaf.options().device(device).requires_grad(false)));
  }
  align(device.is_cpu() ? sizeof(float) : kAlignment);
}

void FlatParameters::align(size_t bytes) {
  const auto options = at::TensorOptions(at::kFloat).device(device_);
  aligned_.assign(tensors_.size(), at::Tensor());
  for (size_t k = 0; k < tensors_.size(); ++k) {
    const ParameterEntry& entry = layout_->entries()[k];
    if (entry.offset * sizeof(float) % bytes != 0) aligned_[k] = at::empty(entry.shape, options);
  }
}

// A view holds an address but no memory. A view that outlives its vector is harmless: it is used
// again only if a new vector has the same address.
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
  const c10::NoGradGuard no_gradients;
  const Views& views = views_of(x.as<float>());
  Views to, from;
  for (size_t k = 0; k < views.size(); ++k) {
    const bool lies_well = aligned_.empty() || !aligned_[k].defined();
    tensors_[k].set_data(lies_well ? views[k] : aligned_[k]);
    if (lies_well) continue;
    to.push_back(aligned_[k]);
    from.push_back(views[k]);
  }
  if (!to.empty()) at::_foreach_copy_(to, from);
}

void FlatParameters::gradient(const at::Tensor& loss, Vec g, double clip) {
  GV_CHECK(g.size == layout_->size());
  Views found(tensors_.size());
  if (loss.requires_grad())
    found = torch::autograd::grad({loss}, tensors_, {}, std::nullopt, false, true);
  const c10::NoGradGuard no_gradients;
  const Views& into = views_of(g.as<float>());
  Views to, from;  // pairs with equal strides: a few launches copy all of them
  for (size_t k = 0; k < into.size(); ++k) {
    if (!found[k].defined()) {
      into[k].zero_();
    } else if (found[k].strides() == into[k].strides()) {
      to.push_back(into[k]);
      from.push_back(found[k]);
    } else {
      into[k].copy_(found[k]);
    }
  }
  if (!to.empty()) at::_foreach_copy_(to, from);
  if (clip > 0) shorten(g, clip);
}

at::Tensor FlatParameters::whole(Vec g) const {
  return view_of(g.as<float>(), {static_cast<int64_t>(g.size)}, device_);
}

void FlatParameters::shorten(Vec g, double clip) const {
  if (!device_.is_cpu()) {  // the host does not wait for the norm
    const at::Tensor all = whole(g);
    all.mul_((clip / all.norm()).clamp_max(1));
    return;
  }
  float* const flat = g.as<float>();
  double squares = 0;
  for (size_t k = 0; k < g.size; ++k)
    squares += static_cast<double>(flat[k]) * flat[k];
  if (!(squares > clip * clip)) return;
  const float factor = static_cast<float>(clip / std::sqrt(squares));
  for (size_t k = 0; k < g.size; ++k)
    flat[k] *= factor;
}

}  // namespace grapevine
