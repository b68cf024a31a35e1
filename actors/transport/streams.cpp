#include "actors/transport/streams.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "actors/transport/tls.hpp"

namespace grapevine {

void set_options(kj::AsyncIoStream& stream, unsigned unacked_ms) {
  const int yes = 1;
  // A stream that is gone already says so when it is read; unix sockets have no such options.
  (void)kj::runCatchingExceptions([&] {
    stream.setsockopt(IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    stream.setsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
  });
}

kj::Promise<kj::AuthenticatedStream> connect_stream(Loop& loop, kj::TlsContext* tls,
                                                    const std::string& address) {
  auto& any = loop.io().provider->getNetwork();
  auto near = any.restrictPeers({"local", "unix"});
  auto& network = tls != nullptr ? any : *near;
  const bool encrypt = tls != nullptr && !is_path(address);
  return network.parseAddress(address.c_str())
      .then([](kj::Own<kj::NetworkAddress> to) {
        auto connecting = to->connectAuthenticated();
        return connecting.attach(kj::mv(to));
      })
      .attach(kj::mv(near))
      .then([tls, encrypt](kj::AuthenticatedStream stream) -> kj::Promise<kj::AuthenticatedStream> {
        if (!encrypt) return kj::mv(stream);
        return tls->wrapClient(kj::mv(stream), kTlsHost);
      });
}

std::string dial_reason_of(const kj::Exception& error) {
  if (error.getType() == kj::Exception::Type::OVERLOADED) return "no answer in time";
  const std::string text = error.getDescription().cStr();
  if (text.find("restrictPeers") != text.npos) return "off loopback a run key is required";
  return tls_reason_of(error);
}

}  // namespace grapevine
