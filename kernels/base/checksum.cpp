#include "kernels/base/checksum.hpp"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

namespace grapevine {

Checksum::Checksum() {
  static_assert(sizeof(XXH3_state_t) == sizeof state_ &&
                alignof(XXH3_state_t) == alignof(Checksum));
  XXH3_64bits_reset(reinterpret_cast<XXH3_state_t*>(state_));
}

void Checksum::add(const void* data, size_t bytes) {
  if (bytes > 0) XXH3_64bits_update(reinterpret_cast<XXH3_state_t*>(state_), data, bytes);
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_));
}

uint64_t xxhash64(const void* data, size_t bytes) { return XXH64(data, bytes, 0); }

}  // namespace grapevine
