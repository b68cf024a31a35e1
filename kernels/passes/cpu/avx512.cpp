#include "kernels/passes/cpu/loops.hpp"

namespace grapevine {

const CpuBuild kAvx512Build = build_named("avx512");

}  // namespace grapevine
