// MetricsServer: serves a node's metrics over HTTP, GET /metrics, and answers probes: /healthz
// while the process serves, /readyz while its node exchanges in the run. A resource, with a thread
// of its own.
#pragma once
#include <memory>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

class MetricsServer {
 public:
  /// `where`: a port, of loopback, or an address of this machine with one; port 0: any. The page
  /// has no secret of the run in it, and asks for no key: whoever reaches the address reads it.
  /// Errors: user, no such address; world, the port is taken.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& where);
  ~MetricsServer();

  /// Where it listens, as a URL.
  const std::string& url() const;

  /// Who is asked, from now on: the node's console. Until then the answer is 503. `expects_others`:
  /// the node is not ready while it is alone.
  void ask(const std::string& address, const std::string& key, bool expects_others);

 private:
  struct Parts;
  explicit MetricsServer(std::unique_ptr<Parts>);
  std::unique_ptr<Parts> parts_;
};

}  // namespace grapevine
