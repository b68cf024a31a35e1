#include "actors/transport/node_key.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <filesystem>

namespace grapevine {
namespace {

// In a run's folder, on a disk that may ignore modes.
constexpr SecretKind kNodeKey{"node key", "grapevine-node-key-1 ", "a node", false};

using EvpKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Digest = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* begin_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

NodeKey::NodeKey(const Secret& secret)
    : secret_(secret),
      key_(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret.data(), secret.size()),
           [](void* key) { EVP_PKEY_free(static_cast<EVP_PKEY*>(key)); }) {
  size_t size = public_.size();
  GV_CHECK(key_ != nullptr);
  GV_CHECK(EVP_PKEY_get_raw_public_key(static_cast<EVP_PKEY*>(key_.get()), public_.data(), &size) ==
           1);
}

Result<NodeKey> NodeKey::kept_in(const std::string& path) {
  std::error_code unknown;  // reading then reports why
  if (!std::filesystem::exists(path, unknown) && !unknown) {
    const NodeKey made = generate();
    if (Status written = write_secret(kNodeKey, made.secret_, path); !written)
      return written.error();
    return made;
  }
  const Result<Secret> secret = read_secret(kNodeKey, path);
  if (!secret) return secret.error();
  return NodeKey(*secret);
}

Signature NodeKey::sign(std::span<const std::byte> bytes) const {
  Signature made{};
  size_t size = made.size();
  const Digest digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  GV_CHECK(EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr,
                              static_cast<EVP_PKEY*>(key_.get())) == 1);
  GV_CHECK(EVP_DigestSign(digest.get(), made.data(), &size, begin_of(bytes), bytes.size()) == 1);
  return made;
}

Signing NodeKey::signing() const {
  return {public_, [key = *this](std::span<const std::byte> bytes) { return key.sign(bytes); },
          is_signed};
}

bool is_signed(const PublicKey& key, std::span<const std::byte> bytes, const Signature& made) {
  const EvpKey of(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()),
                  EVP_PKEY_free);
  const Digest digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return of && EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, of.get()) == 1 &&
         EVP_DigestVerify(digest.get(), made.data(), made.size(), begin_of(bytes), bytes.size()) ==
             1;
}

Challenge random_challenge() {
  Challenge challenge{};
  GV_CHECK(RAND_bytes(challenge.data(), static_cast<int>(challenge.size())) == 1);
  return challenge;
}

}  // namespace grapevine
