// Counters: the counts of a node's actors during a run. They are the only data that the actors
// share: relaxed atomics that actors add to and reports read. No decision of a rank depends on
// them.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>

#include "actors/settings/histogram.hpp"
#include "messages/frame.hpp"

namespace grapevine {

struct Counters {
  std::atomic<uint64_t> gradients{0};
  std::atomic<uint64_t> applied_ends{0};  // two for each exchange
  std::atomic<uint64_t> frames{0}, bytes{0};
  std::atomic<double> loss_sum{0};  // over `gradients`,
  std::atomic<uint64_t> silent{0};  // without these gradients of scripts, which had no loss
  // The largest of the first few losses; NaN: there is none yet.
  std::atomic<double> first_loss{std::numeric_limits<double>::quiet_NaN()};
  std::atomic<uint32_t> losses{0};  // of the first few
  // Of the newest gradient; NaN: there is none yet, or scripts have their own optimizers.
  std::atomic<double> learning_rate{std::numeric_limits<double>::quiet_NaN()};
  std::atomic<double> progress{std::numeric_limits<double>::quiet_NaN()};  // as in RunSample
  std::array<std::atomic<uint64_t>, kDeclineReasons> declines{};           // of offers, by reason
  EdgeHistograms edge_round_trips;                                         // of offers, by edge

  void add_loss(double loss) {
    constexpr uint32_t kFew = 16;
    loss_sum.fetch_add(loss, std::memory_order_relaxed);
    if (losses.load(std::memory_order_relaxed) >= kFew) return;
    losses.fetch_add(1, std::memory_order_relaxed);
    double known = first_loss.load(std::memory_order_relaxed);
    while (!(known >= loss) &&
           !first_loss.compare_exchange_weak(known, loss, std::memory_order_relaxed)) {
    }
  }
};

}  // namespace grapevine
