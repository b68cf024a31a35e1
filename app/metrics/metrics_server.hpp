// MetricsServer: serves a node's metrics over HTTP, GET /metrics, and answers probes: /healthz
// while the process is alive, /readyz while its node exchanges in the run. Has its own thread.
#pragma once
#include <memory>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

class MetricsServer {
 public:
  /// `where`: a port on loopback, or an address of this machine with a port; port 0: any. The page
  /// has no secret and needs no key: any client that reaches the address can read it. Errors: user,
  /// there is no such address; world, the port is taken.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& where);
  ~MetricsServer();

  /// Its address, as a URL.
  const std::string& url() const;

  /// Sets the node's console, whose answers are served from now on. Until then the answer is 503.
  /// `expects_others`: the node is not ready while it is alone.
  void ask(const std::string& address, const std::string& key, bool expects_others);

 private:
  struct Parts;
  explicit MetricsServer(std::unique_ptr<Parts>);
  std::unique_ptr<Parts> parts_;
};

}  // namespace grapevine
