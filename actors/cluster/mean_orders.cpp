#include "actors/cluster/mean_orders.hpp"

namespace grapevine {

MeanOrders::Asked MeanOrders::ask() {
  if (waiting_.size() >= kWaitAtMost) return Asked::refused;
  waiting_.push_back(begun_);
  return under_way_ ? Asked::shares : Asked::first;
}

std::optional<uint64_t> MeanOrders::wanted(uint64_t serial) {
  if (serial == serial_ || serial == 0) return std::nullopt;
  serial_ = serial;
  ++begun_;
  under_way_ = true;
  return serial;
}

MeanOrders::Finished MeanOrders::finished(uint64_t serial) {
  Finished end;
  if (serial != serial_) return end;
  under_way_ = false;
  for (; !waiting_.empty() && waiting_.front() < begun_; waiting_.pop_front())
    ++end.answered;
  end.more = !waiting_.empty();
  return end;
}

}  // namespace grapevine
