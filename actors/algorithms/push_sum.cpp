#include "actors/algorithms/push_sum.hpp"

namespace grapevine {

namespace {

void put(Vec last, double w) {
  if (last.dtype == DType::f64) {
    *last.as<double>() = w;
  } else {
    *last.as<float>() = static_cast<float>(w);
  }
}

double get(ConstVec last) {
  return last.dtype == DType::f64 ? *last.as<double>() : static_cast<double>(*last.as<float>());
}

}  // namespace

void PushSum::on_gradient(double, double lr, ConstVec g, Vec) {
  optimizer_.step(0, lr / w_, g, x_, {}, {});
}

void PushSum::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  w_ = 1;
}

void PushSum::add_conserved(double, Vec sum) {
  Buffer x(size(), dtype());
  scale(execution_, w_, x_, x);
  add_to(execution_, x, sum);
}

void PushSum::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  w_ = 1;
}

void PushSum::write(int, size_t, Payload& out) {
  const Vec message = out.writable(dtype(), size() + 1);
  scale(execution_, w_ / 2, x_, message.part(0, size()));
  put(message.part(size(), 1), w_ / 2);
}

void PushSum::combine(double, int, std::span<const Payload> in) {
  GV_CHECK(in.size() <= 1u);
  if (in.empty() || !in[0]) return;
  const ConstVec message = in[0].vec();
  const double w = w_ / 2 + get(message.part(size(), 1));
  grapevine::combine(execution_, {{{w_ / 2 / w, x_}, {1 / w, message.part(0, size())}}}, x_);
  w_ = w;
}

}  // namespace grapevine
