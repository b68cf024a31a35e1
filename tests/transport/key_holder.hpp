// KeyHolder: a malicious member that has the run key. Its TLS is good, what it says is a test's.
#pragma once
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cstring>
#include <memory>

#include "actors/transport/tls.hpp"
#include "messages/control_codec.hpp"
#include "tests/catch.hpp"
#include "tests/transport/stranger.hpp"

namespace grapevine {

/// A blocking TLS client with a certificate of the run for whatever name it likes.
class KeyHolder {
 public:
  KeyHolder(const std::string& address, const RunKey& key, const std::string& certified,
            int version)
      : socket_(address), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    const Identity identity = make_identity(key, certified, own_);
    const auto bytes = [](const std::string& pem) {
      return std::unique_ptr<BIO, decltype(&BIO_free)>(
          BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
    };
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        PEM_read_bio_X509(bytes(identity.certificate_pem).get(), nullptr, nullptr, nullptr),
        X509_free);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> own(
        PEM_read_bio_PrivateKey(bytes(identity.key_pem).get(), nullptr, nullptr, nullptr),
        EVP_PKEY_free);
    REQUIRE(SSL_CTX_use_certificate(context_.get(), certificate.get()) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey(context_.get(), own.get()) == 1);
    REQUIRE(SSL_CTX_set_min_proto_version(context_.get(), version) == 1);
    REQUIRE(SSL_CTX_set_max_proto_version(context_.get(), version) == 1);
    ssl_ = {SSL_new(context_.get()), SSL_free};
    REQUIRE(SSL_set_fd(ssl_.get(), socket_.fd()) == 1);
    is_encrypted_ = SSL_connect(ssl_.get()) == 1;
  }

  /// The handshake is through at this end.
  bool is_encrypted() const { return is_encrypted_; }
  /// Its certificate's, as it belongs into its Hello.
  const NodeKey& own_key() const { return own_; }
  bool say(const ControlMessage& m) {
    const auto bytes = encode_control(m);
    return bytes && SSL_write(ssl_.get(), bytes->data(), static_cast<int>(bytes->size())) > 0;
  }
  /// The next whole message; a Bye when there is none.
  ControlMessage hear() {
    std::vector<std::byte> bytes(8);
    if (!read(bytes.data(), 8)) return Bye{};
    uint32_t words = 0;
    std::memcpy(&words, bytes.data() + 4, sizeof words);
    bytes.resize(8 + 8 * size_t{words});
    if (!read(bytes.data() + 8, bytes.size() - 8)) return Bye{};
    auto m = decode_control(bytes);
    return m ? *std::move(m) : Bye{};
  }

 private:
  bool read(std::byte* to, size_t size) {
    for (size_t done = 0; done < size;) {
      const int n = SSL_read(ssl_.get(), to + done, static_cast<int>(size - done));
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

  const NodeKey own_ = NodeKey::generate();
  Stranger socket_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
  bool is_encrypted_ = false;
};

}  // namespace grapevine
