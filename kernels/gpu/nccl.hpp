// NCCL of this machine, for edges (nccl_edge.hpp). It is looked up when the program asks for it, so
// the program starts without it. Exists in every build.
#pragma once
#include "kernels/base/result.hpp"
#include "kernels/gpu/nccl_edge.hpp"

namespace grapevine {

struct Nccl {
  int version = 0;  // 22809 is 2.28.9; both ends of an edge must have the same
  NcclCalls calls;
  std::function<Result<NcclId>()> make_id;  // errors (world): NCCL's reason
};

/// Errors (user): this build or this machine has no NCCL; one line with the reason.
Result<Nccl> load_nccl(int gpu);

}  // namespace grapevine
