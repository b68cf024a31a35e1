#include "kernels/passes/cpu/loops.hpp"

namespace grapevine {

const CpuBuild kBaselineBuild = build_named("baseline");

}  // namespace grapevine
