// One question to a node's console, and its whole answer.
#pragma once
#include <string>

#include "kernels/result.hpp"
#include "messages/console.hpp"

namespace grapevine {

/// `key`: the file with the run key; empty: none. Errors: nobody is there (world); the node's own
/// reason where it refuses (user).
Result<std::string> ask_node(const std::string& address, const std::string& key,
                             const ConsoleRequest&, double deadline_s = 2);

}  // namespace grapevine
