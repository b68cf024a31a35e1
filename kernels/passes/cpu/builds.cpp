#include "kernels/passes/passes.hpp"

namespace grapevine {

const CpuBuild* const* cpu_builds() {
  struct Found {
    const CpuBuild* builds[4] = {&kBaselineBuild, nullptr, nullptr, nullptr};
    Found() {
#ifdef GRAPEVINE_X86_BUILDS
      int count = 1;
      __builtin_cpu_init();
      if (__builtin_cpu_supports("avx2")) builds[count++] = &kAvx2Build;
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
        builds[count++] = &kAvx512Build;
      }
#endif
    }
  };
  static const Found found;
  return found.builds;
}

}  // namespace grapevine
