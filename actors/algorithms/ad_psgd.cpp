#include "actors/algorithms/ad_psgd.hpp"

namespace grapevine {

AdPsgd::AdPsgd(const RuleContext& context)
    : execution_(context.execution),
      optimizer_(context.layout, context.settings.optimizer),
      x_(context.layout.size(), context.layout.dtype()) {
  reset(0, context.x);
  if (!context.settings.compress.empty()) compressed_ = std::make_unique<PairFactors>(context);
}

void AdPsgd::read(double, Vec out) { scale(execution_, 1, x_, out); }

void AdPsgd::reset(double, ConstVec x) {
  scale(execution_, 1, x, x_);
  optimizer_.reset(execution_);
}

void AdPsgd::on_gradient(double, double lr, ConstVec g, Vec copy) {
  optimizer_.step(execution_, 0, lr, g, x_, {}, copy);
}

void AdPsgd::add_conserved(double, Vec sum) { add_to(execution_, x_, sum); }

std::vector<Vec> AdPsgd::vectors(double) { return optimizer_.vectors({x_}); }

size_t AdPsgd::snapshot_bytes() const {
  return compressed_ ? compressed_->message_bytes() : x_.size() * size_of(x_.dtype());
}

void AdPsgd::snapshot(double now, const ExchangeKey& key, Payload& out) {
  if (compressed_) {
    compressed_->at(key).encode(x_, out);
  } else {
    read(now, out.writable(x_.dtype(), x_.size()));
  }
  out.lease.set_phase(0);
}

void AdPsgd::jump(double, const ExchangeKey& key, const Payload& sent, const Payload& received,
                  double) {
  if (!compressed_) {
    mix_and_jump(execution_, 0, 0.5, 0.5, sent.vec(), received.vec(), x_, {});
  } else {
    compressed_->jump(key, sent, received, 0, 0.5, 0.5, x_, {});
  }
}

}  // namespace grapevine
