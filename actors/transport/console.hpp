// Console: asks a node, as `grapevine ctl` does. A resource for one thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/transport/run_key.hpp"
#include "messages/control.hpp"

namespace grapevine {

class Console {
 public:
  /// Connects and says hello, in `deadline_s` at most. A TCP address off loopback needs a key.
  static Result<std::unique_ptr<Console>> open(const std::string& address,
                                               const std::optional<RunKey>& key,
                                               double deadline_s = 2);
  ~Console();

  /// Gives each part of the answer to `part` as it comes, until the last or until `part` says
  /// false. An error when the node is gone, or is silent for `silence_s` (0: waits for ever, for
  /// events, and ends well when the node says goodbye).
  Status ask(const ConsoleRequest&, const std::function<bool(const ConsoleReply&)>& part,
             double silence_s = 10);

  const Hello& node() const;  // what it says of itself

 private:
  class Impl;
  explicit Console(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

}  // namespace grapevine
