// RingParts: the pool for the parts of collective rounds (conversations/collective.hpp).
//
// A ring of r ranks cuts the vector of d elements into r parts. A rank uses about r parts at a
// time: the last r that it sent, because a sum travels once around the ring, and one more. So the
// parts of a rank take little more memory than one vector, in a ring of any size. But a smaller
// ring has larger parts. One pool serves rings of R/2 to R ranks:
//
//   R = n, n/2, n/4, ..., 2  (rounded up), the smallest that is not below r
//   size = d / (R/2) + 1,  count = m (R + 4) for m ranks here
//
// So a new pool is made when half of the ranks have gone, not at each death, and it serves again
// when they return. If more ranks join than the n of the start, R is 2n, 4n, ...
#pragma once
#include <algorithm>
#include <cstddef>

namespace grapevine {

struct RingParts {
  size_t most = 0;  // R; 0: the method has no parts
  size_t size = 0;  // elements of one
  size_t count = 0;

  /// For a ring of `ring` out of `all` ranks, `here` of them served by one state actor.
  static RingParts of(size_t vector_size, size_t ring, size_t all, size_t here) {
    size_t most = all;
    while (most < ring)
      most *= 2;
    while (most > 2 && (most + 1) / 2 >= ring)
      most = (most + 1) / 2;
    return {most, vector_size / ((most + 1) / 2) + 1, std::min(here, most) * (most + 4)};
  }
};

}  // namespace grapevine
