// Console: sends requests to a node, as `grapevine ctl` does. One thread uses it.
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
  /// Connects and says hello, within `deadline_s`. A TCP address beyond loopback needs a key.
  static Result<std::unique_ptr<Console>> open(const std::string& address,
                                               const std::optional<RunKey>& key,
                                               double deadline_s = 2);
  ~Console();

  /// Calls `part` with each part of the answer, until the last or until `part` returns false.
  /// Error: the node is gone, or is silent for `silence_s`. With 0 it waits without a limit, for
  /// events, and succeeds when the node says goodbye.
  Status ask(const ConsoleRequest&, const std::function<bool(const ConsoleReply&)>& part,
             double silence_s = 10);

  const Hello& node() const;  // as it describes itself

 private:
  class Impl;
  explicit Console(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

}  // namespace grapevine
