#include "models/heap.hpp"

#include <malloc.h>

namespace grapevine {

void prepare_heap() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);     // activations come from the heap, not from mmap
  mallopt(M_TRIM_THRESHOLD, 2000 << 20);  // the heap keeps its pages between steps
}

}  // namespace grapevine
