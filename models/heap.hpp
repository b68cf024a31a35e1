// The heap as training wants it: pages once taken are kept.
#pragma once

namespace grapevine {

/// Call it first thing in main. A step of a network allocates and frees megabytes of activations;
/// as glibc comes, a second thread gives them back to the kernel after every step and faults them
/// in again (17 to 30 % more CPU time on cnn-small). make_objective calls it too, for networks;
/// twice does no harm.
void prepare_heap();

}  // namespace grapevine
