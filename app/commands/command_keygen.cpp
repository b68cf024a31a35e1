// grapevine keygen: writes a run key to a file.
#include <cstdio>

#include "actors/transport/run_key.hpp"
#include "app/commands/commands.hpp"
#include "kernels/base/printable.hpp"

namespace grapevine {

Result<int> make_key(Options options) {
  if (options.argument.empty())
    return user_error("keygen without a file, accepted: grapevine keygen FILE");
  if (Status written = RunKey::generate().write(options.argument); !written) return written.error();
  std::fprintf(stderr, "%s: a run key, for its owner alone; every node of the run needs it\n",
               printable(options.argument).c_str());
  return 0;
}

}  // namespace grapevine
