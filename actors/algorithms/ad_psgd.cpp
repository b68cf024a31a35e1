#include "actors/algorithms/ad_psgd.hpp"

namespace grapevine {

void AdPsgd::read(double, Vec out) { scale(execution_, 1, x_, out); }

double AdPsgd::measured_step(double, double lr, ConstVec g, Vec copy) {
  return optimizer_.measured_step(execution_, 0, lr, g, x_, {}, copy);
}

double AdPsgd::measured_take(double, Vec front, Vec base, Vec finite) {
  return take_by(0, front, base, {}, finite);
}

void AdPsgd::snapshot(double, const ExchangeKey& key, ConstVec front, Payload& out) {
  write(key, 0, {}, front, out);
  out.lease.set_phase(0);
}

void AdPsgd::jump(double, const ExchangeKey& key, const Payload& sent, const Payload& received,
                  double, double share) {
  apply(key, sent, received, 0, share * 0.5, 0, {});
}

}  // namespace grapevine
