// The commands. Each prints its own report (or JSON) and returns the exit status, or the error to
// print.
#pragma once
#include <functional>
#include <memory>

#include "app/options/options.hpp"

namespace grapevine {

class GuestHall;

Result<int> train(Options);
Result<int> simulate(Options);
Result<int> show_topology(const Options&);
Result<int> show_data(const Options&);
Result<int> show_methods(const Options&);
Result<int> compare(const Options&);
Result<int> reproduce(const Options&);
/// Called with the path of the socket for scripts, if there are guests. A caller that gives one
/// waits for the scripts.
using OnHall = std::function<void(const std::shared_ptr<GuestHall>&)>;
Result<int> node(Options, const OnHall& on_hall = {});
Result<int> launch(Options);
Result<int> control(const Options&);
Result<int> make_key(const Options&);
Result<int> doctor(const Options&);
Result<int> show_cost(const Options&);

}  // namespace grapevine
