#include "actors/transport/key_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/base/write_file.hpp"

namespace grapevine {
namespace {

constexpr size_t kDigitsOfSecret = 64;
constexpr char kDigits[] = "0123456789abcdef";

struct OpenFile {
  int fd;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

Error in_words(const SecretKind& kind, const std::string& path, const std::string& why) {
  return user_error(fmt::format("{} {}: {}", kind.name, path, why));
}

}  // namespace

Secret random_secret() {
  Secret secret{};
  GV_CHECK(RAND_bytes(secret.data(), static_cast<int>(secret.size())) == 1);
  return secret;
}

Result<Secret> read_secret(const SecretKind& kind, const std::string& path) {
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return in_words(kind, path, std::strerror(errno));
  struct stat about {};
  if (::fstat(file.fd, &about) != 0 || !S_ISREG(about.st_mode))
    return in_words(kind, path,
                    fmt::format("not a file, accepted: one that {} wrote", kind.writer));
  if (kind.is_guarded && (about.st_mode & 077) != 0)
    return in_words(kind, path, "others may read it, accepted: its owner alone (chmod 600)");
  const size_t before = std::strlen(kind.prefix), whole_line = before + kDigitsOfSecret + 1;
  std::string text(whole_line + 1, 0);
  const ssize_t n = ::read(file.fd, text.data(), text.size());
  Secret secret{};
  bool whole = n == static_cast<ssize_t>(whole_line) && text[whole_line - 1] == '\n' &&
               text.starts_with(kind.prefix);
  for (size_t k = 0; whole && k < kDigitsOfSecret; ++k) {
    const char* digit = std::strchr(kDigits, text[before + k]);
    whole = digit != nullptr && *digit != 0;
    if (whole) secret[k / 2] = static_cast<uint8_t>(secret[k / 2] << 4 | (digit - kDigits));
  }
  if (!whole)
    return in_words(kind, path,
                    fmt::format("not a {} or a cut one, accepted: the line that {} wrote",
                                kind.name, kind.writer));
  return secret;
}

Status write_secret(const SecretKind& kind, const Secret& secret, const std::string& path) {
  std::string line = kind.prefix;
  for (const uint8_t byte : secret) {
    line += kDigits[byte >> 4];
    line += kDigits[byte & 15];
  }
  line += '\n';
  Status written = write_whole_file(path, {{line.data(), line.size()}}, {false, 0600});
  if (written) return Done{};
  return Error{written.error().kind, std::string(kind.name) + ": " + written.error().message};
}

}  // namespace grapevine
