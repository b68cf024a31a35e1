#include "actors/transport/run_key.hpp"

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

constexpr char kPrefix[] = "grapevine-run-key-1 ";
constexpr size_t kPrefixBytes = sizeof kPrefix - 1, kLineBytes = kPrefixBytes + 64 + 1;
constexpr char kDigits[] = "0123456789abcdef";

struct OpenFile {
  int fd;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

Error in_words(const std::string& path, const std::string& why) {
  return user_error(fmt::format("run key {}: {}", path, why));
}

}  // namespace

RunKey RunKey::generate() {
  std::array<uint8_t, 32> secret{};
  GV_CHECK(RAND_bytes(secret.data(), static_cast<int>(secret.size())) == 1);
  return RunKey(secret);
}

Result<RunKey> RunKey::read(const std::string& path) {
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return in_words(path, std::strerror(errno));
  struct stat about {};
  if (::fstat(file.fd, &about) != 0 || !S_ISREG(about.st_mode))
    return in_words(path, "not a file, accepted: one that grapevine keygen wrote");
  if ((about.st_mode & 077) != 0)
    return in_words(path, "others may read it, accepted: its owner alone (chmod 600)");
  std::array<char, kLineBytes + 1> text{};
  const ssize_t n = ::read(file.fd, text.data(), text.size());
  std::array<uint8_t, 32> secret{};
  bool whole = n == static_cast<ssize_t>(kLineBytes) && text[kLineBytes - 1] == '\n' &&
               std::memcmp(text.data(), kPrefix, kPrefixBytes) == 0;
  for (size_t k = 0; whole && k < 64; ++k) {
    const char* digit = std::strchr(kDigits, text[kPrefixBytes + k]);
    whole = digit != nullptr && *digit != 0;
    if (whole) secret[k / 2] = static_cast<uint8_t>(secret[k / 2] << 4 | (digit - kDigits));
  }
  if (!whole)
    return in_words(path,
                    "not a run key or a cut one, accepted: the line that grapevine keygen wrote");
  return RunKey(secret);
}

Status RunKey::write(const std::string& path) const {
  std::string line = kPrefix;
  for (const uint8_t byte : secret_) {
    line += kDigits[byte >> 4];
    line += kDigits[byte & 15];
  }
  line += '\n';
  Status written = write_whole_file(path, {{line.data(), line.size()}}, {false, 0600});
  if (written) return Done{};
  return Error{written.error().kind, "run key: " + written.error().message};
}

}  // namespace grapevine
