// NodeKey: the key with which a process signs its facts, its links and, with TLS, its certificate.
// A value.
//
// An Ed25519 key, whose first bytes are the id of the process (messages/keys.hpp). A node keeps it
// in its folder: after a restart it counts as the same process.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "actors/transport/key_file.hpp"
#include "messages/keys.hpp"

namespace grapevine {

class NodeKey {
 public:
  static NodeKey generate() { return NodeKey(random_secret()); }
  explicit NodeKey(const Secret&);
  /// The key in this file. If there is no file, a new key, which is written to it.
  static Result<NodeKey> kept_in(const std::string& path);

  const Secret& secret() const { return secret_; }
  const PublicKey& public_key() const { return public_; }
  Signature sign(std::span<const std::byte>) const;
  Signing signing() const;

 private:
  Secret secret_;
  PublicKey public_{};
  std::shared_ptr<void> key_;  // the object of the TLS library
};

bool is_signed(const PublicKey&, std::span<const std::byte>, const Signature&);

/// From the system's randomness.
Challenge random_challenge();

}  // namespace grapevine
