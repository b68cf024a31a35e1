// The commands. Each prints its own report (or JSON) and returns the exit status, or the error to
// print. Each has a row in command_line.cpp, which calls it.
#pragma once
#include <functional>
#include <memory>

#include "app/options/options.hpp"

namespace grapevine {

class GuestServer;

Result<int> train(Options);
Result<int> simulate(Options);
Result<int> show_topology(Options);
Result<int> show_data(Options);
Result<int> show_methods(Options);
Result<int> compare(Options);
Result<int> reproduce(Options);
Result<int> node(Options);
/// Called with the server for scripts, if there are guests. A caller that sets it waits for the
/// scripts.
using OnGuestServer = std::function<void(const std::shared_ptr<GuestServer>&)>;
Result<int> node_with_guests(Options, const OnGuestServer&);
Result<int> launch(Options);
Result<int> control(Options);
Result<int> make_key(Options);
Result<int> doctor(Options);
Result<int> show_cost(Options);

}  // namespace grapevine
