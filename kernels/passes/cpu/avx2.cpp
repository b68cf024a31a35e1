#include "kernels/passes/cpu/loops.hpp"

namespace grapevine {

const CpuBuild kAvx2Build = build_named("avx2");

}  // namespace grapevine
