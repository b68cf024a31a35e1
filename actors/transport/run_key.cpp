#include "actors/transport/run_key.hpp"

#include "actors/transport/key_file.hpp"

namespace grapevine {
namespace {

constexpr SecretKind kRunKey{"run key", "grapevine-run-key-1 ", "grapevine keygen", true};

}  // namespace

RunKey RunKey::generate() { return RunKey(random_secret()); }

Result<RunKey> RunKey::read(const std::string& path) {
  const Result<Secret> secret = read_secret(kRunKey, path);
  if (!secret) return secret.error();
  return RunKey(*secret);
}

Status RunKey::write(const std::string& path) const { return write_secret(kRunKey, secret_, path); }

}  // namespace grapevine
