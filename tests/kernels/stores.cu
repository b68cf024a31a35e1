// The passes that write a vector which they do not read, as ops.cu has them: a test reads what nvcc
// makes of their stores.
#include "kernels/passes/cuda/cuda_grid.hpp"
#include "kernels/passes/rule_passes.hpp"
#include "kernels/passes/vector_passes.hpp"

namespace grapevine::cuda {
namespace {

template <int N, class Pass>
void start(const Pass& pass) {
  run_pass<N><<<1, 1>>>(pass, 0, 0, 0);
}

}  // namespace

void start_all() {
  start<4>(ScalePass<float>{});
  start<4>(ExtrapolatePass<float>{});
  start<2>(ExtrapolatePass<double>{});
  start<4>(RoundPass<float, true>{});
  start<2>(RoundPass<double, true>{});
  start<4>(CombinePass<float, false, 3>{});
  start<4>(GatherPass<float, 2>{});
  start<4>(StepPass<float, true, true, true, true>{});
  start<4>(AdamPass<float, true, true, true>{});
}

}  // namespace grapevine::cuda
