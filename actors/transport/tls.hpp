// The certificates of a run key: the run's own certificate authority, and a certificate for each
// process.
//
// HKDF-SHA256 of the key is the authority's Ed25519 private key, so every node derives the same
// authority and issues its own certificate, in memory, for the key that it signs with
// (node_key.hpp). A node accepts any certificate of that authority; its common name is the node's
// name.
#pragma once
#include <kj/async-io.h>
#include <kj/compat/tls.h>

#include <memory>
#include <string>

#include "actors/transport/node_key.hpp"
#include "actors/transport/run_key.hpp"

namespace grapevine {

/// The name that every certificate has beside the node's own, for clients to check.
constexpr char kTlsHost[] = "node.grapevine";

struct Identity {
  std::string authority_pem, certificate_pem, key_pem;
};

Identity make_identity(const RunKey&, const std::string& node, const NodeKey&);

/// Mutual TLS 1.3 between processes with the run key only.
kj::Own<kj::TlsContext> make_tls(const Identity&);

/// The name in the other end's certificate; empty without one.
std::string certified_name(kj::PeerIdentity&);

/// The key in that certificate; 0 without one, or if it is of another kind.
PublicKey certified_key(kj::PeerIdentity&);

/// Why a connection or its TLS failed, in our words if it is about keys.
std::string tls_reason_of(const kj::Exception&);

}  // namespace grapevine
