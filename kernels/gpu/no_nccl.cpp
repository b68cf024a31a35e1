// nccl.hpp in a build without NCCL.
#include "kernels/gpu/nccl.hpp"

namespace grapevine {

Result<Nccl> load_nccl(int) { return user_error("no NCCL: this build has none"); }

}  // namespace grapevine
