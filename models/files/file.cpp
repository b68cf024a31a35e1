#include "models/files/file.hpp"

#include <fmt/core.h>

#include <lzma.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace grapevine {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr uint64_t kXzMemoryBytes = uint64_t{256} << 20;
constexpr uint8_t kXzMagic[6] = {0xfd, '7', 'z', 'X', 'Z', 0};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Error cannot_open(const std::string& path) {
  return world_error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
}

Error too_large(const std::string& path, size_t limit_bytes) {
  return world_error(fmt::format("{} holds more than the {} bytes that are accepted", path,
                                 with_commas(limit_bytes)));
}

// zlib's gzread also passes plain files through as they are.
Result<Bytes> read_gzip_or_plain(const std::string& path, size_t limit_bytes) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return cannot_open(path);
  gzbuffer(file.get(), 1 << 17);
  Bytes content;
  while (true) {
    const size_t had = content.size();
    content.resize(had + kChunkBytes);
    const int got = gzread(file.get(), content.data() + had, static_cast<unsigned>(kChunkBytes));
    content.resize(had + static_cast<size_t>(got < 0 ? 0 : got));
    if (content.size() > limit_bytes) return too_large(path, limit_bytes);
    if (got == static_cast<int>(kChunkBytes)) continue;
    int code = Z_OK;
    const char* why = gzerror(file.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return content;
    if (code == Z_ERRNO) return cannot_open(path);
    return world_error(fmt::format(
        "{}{}{} unpacked bytes{}", path,
        code == Z_BUF_ERROR ? " is cut: its gzip stream ends after "
                            : " is damaged: its gzip stream breaks after ",
        with_commas(content.size()), code == Z_BUF_ERROR ? "" : fmt::format(" ({})", why)));
  }
}

struct XzStream {
  lzma_stream stream = LZMA_STREAM_INIT;
  ~XzStream() { lzma_end(&stream); }
};

Result<Bytes> read_xz(const std::string& path, std::FILE* file, size_t limit_bytes) {
  XzStream xz;
  GV_CHECK(lzma_stream_decoder(&xz.stream, kXzMemoryBytes, LZMA_CONCATENATED) == LZMA_OK);
  Bytes packed(kChunkBytes), content;
  lzma_action action = LZMA_RUN;
  while (true) {
    if (xz.stream.avail_in == 0 && action == LZMA_RUN) {
      xz.stream.next_in = packed.data();
      xz.stream.avail_in = std::fread(packed.data(), 1, packed.size(), file);
      if (std::ferror(file)) return cannot_open(path);
      if (std::feof(file)) action = LZMA_FINISH;
    }
    const size_t had = content.size();
    content.resize(had + kChunkBytes);
    xz.stream.next_out = content.data() + had;
    xz.stream.avail_out = kChunkBytes;
    const lzma_ret code = lzma_code(&xz.stream, action);
    content.resize(content.size() - xz.stream.avail_out);
    if (content.size() > limit_bytes) return too_large(path, limit_bytes);
    if (code == LZMA_STREAM_END) return content;
    if (code == LZMA_OK) continue;
    return world_error(fmt::format("{}{}{} unpacked bytes", path,
                                   code == LZMA_BUF_ERROR
                                       ? " is cut: its xz stream ends after "
                                       : " is damaged: its xz stream breaks after ",
                                   with_commas(content.size())));
  }
}

}  // namespace

Result<Bytes> read_whole_file(const std::string& path, size_t limit_bytes) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) return cannot_open(path);
  uint8_t first[sizeof kXzMagic] = {};
  const size_t got = std::fread(first, 1, sizeof first, file.get());
  if (std::ferror(file.get())) return cannot_open(path);
  if (got == sizeof first && std::memcmp(first, kXzMagic, sizeof first) == 0) {
    std::rewind(file.get());
    return read_xz(path, file.get(), limit_bytes);
  }
  return read_gzip_or_plain(path, limit_bytes);
}

std::string find_packed(const std::string& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz", ".xz"}) {
    const std::string path = fmt::format("{}/{}{}", folder, name, suffix);
    std::error_code none;
    if (std::filesystem::is_regular_file(path, none)) return path;
  }
  return {};
}

std::string with_commas(size_t value) {
  std::string text = std::to_string(value);
  for (size_t from_end = 3; from_end < text.size(); from_end += 4) {
    text.insert(text.size() - from_end, ",");
  }
  return text;
}

std::string in_digits(double value) {
  return fmt::format("{:g}", value);
}

}  // namespace grapevine
