#pragma once

namespace grapevine::bench {

/// A kernel of this process's own, which takes its GPU away from it: queued, and not waited for.
void write_to_an_illegal_address(int gpu);

}  // namespace grapevine::bench
