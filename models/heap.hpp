// Heap settings for training: the process keeps its pages.
#pragma once

namespace grapevine {

/// Call it first in main. A step of a network allocates and frees megabytes of activations. With
/// glibc's defaults, a second thread returns them to the kernel after every step and faults them in
/// again (17 to 30 % more CPU time on cnn-small). make_objective also calls it for networks; a
/// second call does no harm.
void prepare_heap();

}  // namespace grapevine
