#include "actors/transport/streams.hpp"

#include <kj/debug.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "actors/transport/local_socket.hpp"
#include "actors/transport/tls.hpp"

namespace grapevine {
namespace {

constexpr unsigned kUnackedMs = 3000;

// The addresses of a name, in order, starting at a random one. The name of a service has the
// addresses of all its hosts, perhaps also of this one: a new random start in each attempt makes
// sure that all are tried.
std::vector<std::string> addresses_of(kj::NetworkAddress& name) {
  const std::string all = name.toString().cStr();
  if (all.starts_with("unix")) return {all};  // its path may have commas
  std::vector<std::string> each;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    each.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  const auto first = static_cast<ptrdiff_t>(std::random_device()() % each.size());
  std::rotate(each.begin(), each.begin() + first, each.end());
  return each;
}

kj::Promise<kj::AuthenticatedStream> connect_to(kj::Own<kj::NetworkAddress> address) {
  auto connecting = address->connectAuthenticated();
  return connecting.attach(kj::mv(address));
}

// The first of them, from `k` on, that accepts the connection.
kj::Promise<kj::AuthenticatedStream> connect_to_any(kj::Network& network,
                                                    std::vector<std::string> addresses, size_t k) {
  auto connected =
      network.parseAddress(addresses[k].c_str()).then([](kj::Own<kj::NetworkAddress> to) {
        return connect_to(kj::mv(to));
      });
  if (k + 1 == addresses.size()) return connected;
  return connected.catch_([&network, addresses = std::move(addresses), k](kj::Exception&&) mutable {
    return connect_to_any(network, std::move(addresses), k + 1);
  });
}

}  // namespace

void set_options(kj::AsyncIoStream& stream) {
  const int yes = 1;
  const unsigned unacked_ms = kUnackedMs;
  // A stream that is gone reports this when it is read. Unix sockets do not have these options.
  (void)kj::runCatchingExceptions([&] {
    stream.setsockopt(IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    stream.setsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
  });
}

kj::Promise<kj::AuthenticatedStream> connect_stream(Loop& loop, kj::TlsContext* tls,
                                                    const std::string& address) {
  return connect_stream(loop, tls, address, "", tls != nullptr && !is_path(address));
}

kj::Promise<kj::AuthenticatedStream> connect_stream(Loop& loop, kj::TlsContext* tls,
                                                    const std::string& address, const char* word,
                                                    bool encrypt) {
  auto& any = loop.io().provider->getNetwork();
  auto near = any.restrictPeers({"local", "unix"});
  auto& network = tls != nullptr ? any : *near;
  return network.parseAddress(address.c_str())
      .then([&network](kj::Own<kj::NetworkAddress> to) {
        auto addresses = addresses_of(*to);
        return addresses.size() == 1 ? connect_to(kj::mv(to))
                                     : connect_to_any(network, std::move(addresses), 0);
      })
      .attach(kj::mv(near))
      .then([word](kj::AuthenticatedStream made) -> kj::Promise<kj::AuthenticatedStream> {
        KJ_IF_MAYBE (fd, made.stream->getFd()) {
          if (!is_of_this_user(*fd)) return KJ_EXCEPTION(FAILED, "another user listens there");
        }
        set_options(*made.stream);
        if (*word == 0) return kj::mv(made);
        auto& stream = *made.stream;
        return stream.write(word, std::strlen(word)).then([made = kj::mv(made)]() mutable {
          return kj::mv(made);
        });
      })
      .then([tls, encrypt](kj::AuthenticatedStream made) -> kj::Promise<kj::AuthenticatedStream> {
        if (!encrypt) return kj::mv(made);
        return tls->wrapClient(kj::mv(made), kTlsHost);
      });
}

std::string dial_reason_of(const kj::Exception& error) {
  if (error.getType() == kj::Exception::Type::OVERLOADED) return "no answer in time";
  const std::string text = error.getDescription().cStr();
  if (text.starts_with("DNS lookup failed")) return kUnresolved;
  if (text.find("restrictPeers") != text.npos)
    return "not a loopback address, accepted: a run key with it";
  return tls_reason_of(error);
}

uint64_t acknowledged_bytes(kj::AsyncIoStream& stream) {
  tcp_info info{};
  unsigned size = sizeof info;
  const auto failed =
      kj::runCatchingExceptions([&] { stream.getsockopt(IPPROTO_TCP, TCP_INFO, &info, &size); });
  return failed == nullptr ? info.tcpi_bytes_acked : 0;
}

}  // namespace grapevine
