#include "actors/transport/tls.hpp"

#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <initializer_list>

#include "actors/transport/loop.hpp"

namespace grapevine {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Bytes = std::unique_ptr<BIO, Freed<BIO_free_all>>;

constexpr char kPurpose[] = "grapevine run authority 1";
// Valid at any time, so a wrong clock or a long run does no harm: the run key alone admits a node,
// and a certificate is never stored.
constexpr char kValidFrom[] = "19700101000000Z", kValidUntil[] = "99991231235959Z";

// These functions fail only without memory.

Key authority_key(const RunKey& run) {
  const std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>> hkdf(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr));
  std::array<unsigned char, 32> seed;
  size_t size = seed.size();
  GV_CHECK(EVP_PKEY_derive_init(hkdf.get()) > 0);
  GV_CHECK(EVP_PKEY_CTX_set_hkdf_md(hkdf.get(), EVP_sha256()) > 0);
  GV_CHECK(EVP_PKEY_CTX_set1_hkdf_key(hkdf.get(), run.secret().data(), 32) > 0);
  GV_CHECK(EVP_PKEY_CTX_add1_hkdf_info(hkdf.get(), reinterpret_cast<const unsigned char*>(kPurpose),
                                       sizeof kPurpose - 1) > 0);
  GV_CHECK(EVP_PKEY_derive(hkdf.get(), seed.data(), &size) > 0);
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  GV_CHECK(key != nullptr);
  return key;
}

void extend(X509* subject, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, subject, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  GV_CHECK(extension != nullptr);
  GV_CHECK(X509_add_ext(subject, extension.get(), -1) == 1);
}

/// Without an issuer it signs itself.
Certificate certify(EVP_PKEY* subject, const std::string& name, EVP_PKEY* signer, X509* issuer) {
  Certificate made(X509_new());
  GV_CHECK(made != nullptr);
  X509* c = made.get();
  X509_set_version(c, X509_VERSION_3);
  std::array<unsigned char, 8> serial;
  GV_CHECK(RAND_bytes(serial.data(), static_cast<int>(serial.size())) == 1);
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(
      BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr));
  GV_CHECK(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(c)) != nullptr);
  GV_CHECK(ASN1_TIME_set_string_X509(X509_getm_notBefore(c), kValidFrom) == 1);
  GV_CHECK(ASN1_TIME_set_string_X509(X509_getm_notAfter(c), kValidUntil) == 1);
  X509_NAME* of = X509_get_subject_name(c);
  GV_CHECK(X509_NAME_add_entry_by_txt(of, "CN", MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(name.data()),
                                      static_cast<int>(name.size()), -1, 0) == 1);
  X509_set_issuer_name(c, issuer != nullptr ? X509_get_subject_name(issuer) : of);
  X509_set_pubkey(c, subject);
  if (issuer != nullptr) {
    extend(c, issuer, NID_basic_constraints, "critical,CA:FALSE");
    extend(c, issuer, NID_subject_alt_name, (std::string("DNS:") + kTlsHost).c_str());
    extend(c, issuer, NID_ext_key_usage, "serverAuth,clientAuth");
  } else {
    extend(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    extend(c, c, NID_key_usage, "critical,keyCertSign");
  }
  GV_CHECK(X509_sign(c, signer, nullptr) > 0);  // Ed25519 has no digest
  return made;
}

template <class Write>
std::string pem(Write write) {
  const Bytes bytes(BIO_new(BIO_s_mem()));
  GV_CHECK(write(bytes.get()) == 1);
  char* begin = nullptr;
  const long size = BIO_get_mem_data(bytes.get(), &begin);
  return {begin, static_cast<size_t>(size)};
}

// The library gives only the name in a certificate. An explicit instantiation may name private
// members, so this reads the certificate itself. It does not compile if the member is missing.
template <void* kj::TlsPeerIdentity::*Certificate>
struct Shown {
  friend void* certificate_of(kj::TlsPeerIdentity& peer) { return peer.*Certificate; }
};
void* certificate_of(kj::TlsPeerIdentity&);
template struct Shown<&kj::TlsPeerIdentity::cert>;

}  // namespace

Identity make_identity(const RunKey& run, const std::string& node, const NodeKey& key) {
  const Key authority = authority_key(run);
  const Key own(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, key.secret().data(),
                                             key.secret().size()));
  GV_CHECK(own != nullptr);
  const Certificate root = certify(authority.get(), "grapevine run", authority.get(), nullptr);
  const Certificate leaf = certify(own.get(), node, authority.get(), root.get());
  return {pem([&](BIO* to) { return PEM_write_bio_X509(to, root.get()); }),
          pem([&](BIO* to) { return PEM_write_bio_X509(to, leaf.get()); }), pem([&](BIO* to) {
            return PEM_write_bio_PrivateKey(to, own.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

kj::Own<kj::TlsContext> make_tls(const Identity& identity) {
  const kj::TlsCertificate authority(identity.authority_pem.c_str());
  const kj::TlsKeypair own{kj::TlsPrivateKey(kj::StringPtr(identity.key_pem.c_str())),
                           kj::TlsCertificate(identity.certificate_pem.c_str())};
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.verifyClients = true;
  options.trustedCertificates = kj::arrayPtr(&authority, 1);
  // The library's list of versions ends one before the version that it negotiates.
  options.minVersion = static_cast<kj::TlsVersion>(static_cast<int>(kj::TlsVersion::TLS_1_2) + 1);
  options.defaultKeypair = own;
  return kj::heap<kj::TlsContext>(kj::mv(options));
}

std::string certified_name(kj::PeerIdentity& identity) {
  auto& tls = kj::downcast<kj::TlsPeerIdentity>(identity);
  if (!tls.hasCertificate()) return {};
  return tls.getCommonName().cStr();
}

PublicKey certified_key(kj::PeerIdentity& identity) {
  PublicKey key{};
  size_t size = key.size();
  const auto* certificate =
      static_cast<const X509*>(certificate_of(kj::downcast<kj::TlsPeerIdentity>(identity)));
  const EVP_PKEY* shown = certificate == nullptr ? nullptr : X509_get0_pubkey(certificate);
  if (shown == nullptr || EVP_PKEY_get_raw_public_key(shown, key.data(), &size) != 1) return {};
  return key;
}

std::string tls_reason_of(const kj::Exception& error) {
  const std::string text = error.getDescription().cStr();
  const auto says = [&](std::initializer_list<const char*> some) {
    return std::any_of(some.begin(), some.end(),
                       [&](const char* words) { return text.find(words) != text.npos; });
  };
  // An end before the certificate has come is, to the library, a peer without one.
  if (says({"unexpected eof", "unable to continue I/O", "provided no certificate",
            "Connection reset", "Broken pipe"}))
    return "the connection broke off in the TLS handshake";
  if (says({"certificate", "decrypt error", "unknown ca"})) return "another run key there";
  if (says({"wrong version number", "http request", "packet length", "unsupported protocol"}))
    return "no run key there, this node asks for one";
  return reason_of(error);
}

}  // namespace grapevine
