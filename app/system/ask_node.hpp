// A request to a node's console, with its whole answer.
#pragma once
#include <functional>
#include <string>

#include "actors/transport/console.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

/// The address of a node: host:port, unix:/path and /path unchanged, otherwise the name of a local
/// node. Error (user): no node, or several, have this name.
Result<std::string> address_of_node(const std::string& text);

/// `key`: the file with the run key; empty: none. Errors: no node answers (world); no such key
/// (user).
Result<std::unique_ptr<Console>> open_console(const std::string& address, const std::string& key,
                                              double deadline_s = 2);

/// `key`: the file with the run key; empty: none. Errors: no node answers (world); the node
/// refuses, with its reason (user).
Result<std::string> ask_node(const std::string& address, const std::string& key,
                             const ConsoleRequest&, double deadline_s = 2, double silence_s = 10);

/// Passes each part of the answer to `part` at once, until the node ends or `part` returns false.
Status follow_node(const std::string& address, const std::string& key, const ConsoleRequest&,
                   const std::function<bool(const ConsoleReply&)>& part);

struct SnapshotAnswer {
  std::string description;  // JSON
  std::string bytes;        // of the mean's vectors, one after the other
};

/// Requests the mean of all ranks and fetches it in several answers, each checked against its hash.
/// If the connection breaks, it is opened again and the rest is fetched.
Result<SnapshotAnswer> fetch_snapshot(const std::string& address, const std::string& key);

}  // namespace grapevine
