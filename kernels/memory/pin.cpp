#include "kernels/memory/pin.hpp"

#include <algorithm>
#include <utility>

namespace grapevine {

bool Pin::cover(const Access& memory, size_t bytes, const Pinner& by) {
  if (covers(bytes)) return true;
  if (is_refused_ || !by.pin) return false;
  // At least twice as much as before: payloads that grow cost few calls.
  const size_t wanted = std::min(memory.bytes, std::max(bytes, 2 * bytes_));
  drop();
  is_refused_ = !by.pin({memory.data, wanted, memory.mode});
  if (is_refused_) return false;
  bytes_ = wanted;
  unpin_ = [data = const_cast<void*>(memory.data), unpin = by.unpin] { unpin(data); };
  return true;
}

void Pin::drop() {
  bytes_ = 0;
  is_refused_ = false;
  if (unpin_) std::exchange(unpin_, {})();
}

}  // namespace grapevine
