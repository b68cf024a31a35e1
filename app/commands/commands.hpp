// The commands. Each prints its own report (or JSON) and returns the exit status, or the error to
// be told.
#pragma once
#include <functional>
#include <string>

#include "app/options/options.hpp"

namespace grapevine {

Result<int> train(Options);
Result<int> simulate(Options);
Result<int> stragglers(Options);
Result<int> show_topology(const Options&);
Result<int> show_data(const Options&);
Result<int> show_methods(const Options&);
Result<int> compare(const Options&);
Result<int> reproduce(const Options&);
/// `on_door` is told where scripts come in, if there are guests; it may be empty.
Result<int> node(Options, const std::function<void(const std::string& door)>& on_door = {});
Result<int> launch(Options);
Result<int> control(const Options&);
Result<int> make_key(const Options&);
Result<int> doctor(const Options&);

}  // namespace grapevine
