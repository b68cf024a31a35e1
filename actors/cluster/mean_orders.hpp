// MeanOrders: when a node starts the mean of a snapshot, and which requests it answers, as a state
// machine without I/O.
//
// A node that needs a mean tells the membership that one more is requested: each request changes
// the serial number. Means are computed one after the other. A request that comes during one shares
// the next, which is requested as soon as this one is finished. A mean answers the requests that
// came before it started here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace grapevine {

class MeanOrders {
 public:
  enum class Asked {
    refused,  // too many requests wait
    shares,   // the next mean answers it
    first     // the membership has to spread a new request
  };
  /// Adds a request to those that wait.
  Asked ask();

  /// `serial`: from the membership, while the ranks here take part. Returns it if a new mean begins
  /// now. 0: no mean is requested.
  std::optional<uint64_t> wanted(uint64_t serial);

  struct Finished {
    size_t answered = 0;  // the number of answered requests, the oldest ones
    bool more = false;    // others wait: the membership has to spread a new request
  };
  /// The mean of that serial is here, or cannot be computed. If a later one has begun: nothing
  /// follows.
  Finished finished(uint64_t serial);

 private:
  static constexpr size_t kWaitAtMost = 64;

  std::deque<uint64_t> waiting_;     // per request: the number of means begun before it
  uint64_t begun_ = 0, serial_ = 0;  // of means; of the last one
  bool under_way_ = false;
};

}  // namespace grapevine
