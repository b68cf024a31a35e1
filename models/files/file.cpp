#include "models/files/file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "kernels/base/memory_left.hpp"

namespace grapevine {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr uint64_t kXzMemoryBytes = uint64_t{256} << 20;
constexpr uint8_t kXzMagic[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
constexpr uint8_t kGzipMagic[2] = {0x1f, 0x8b};

Error cannot_read(const std::string& path) {
  return world_error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
}

Error breaks(const std::string& path, const char* packer, bool is_cut, size_t unpacked,
             const std::string& why) {
  return world_error(fmt::format("{} is {}: its {} stream {} after {} unpacked bytes{}", path,
                                 is_cut ? "cut" : "damaged", packer, is_cut ? "ends" : "breaks",
                                 with_commas(unpacked), why));
}

}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file || ::fstat(file.fd(), &about) != 0) return cannot_read(path);
  if (!S_ISREG(about.st_mode))
    return world_error(fmt::format("cannot read {}: it is {}, accepted: a file", path,
                                   S_ISDIR(about.st_mode) ? "a folder" : "a device or a pipe"));
  return InputFile(path, std::move(file), static_cast<uint64_t>(about.st_size));
}

Status InputFile::read(uint64_t at, void* to, size_t count) const {
  for (size_t done = 0; done < count;) {
    const ssize_t got =
        ::pread(fd(), static_cast<char*>(to) + done, count - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path_);
    if (got == 0)
      return world_error(fmt::format("{} is cut: it ends after {} bytes", path_,
                                     with_commas(static_cast<size_t>(at) + done)));
    done += static_cast<size_t>(got);
  }
  return Done{};
}

Result<Bytes> InputFile::begin(size_t at_most) const {
  Bytes bytes(static_cast<size_t>(std::min<uint64_t>(at_most, size_)));
  if (Status whole = read(0, bytes.data(), bytes.size()); !whole) return whole.error();
  return bytes;
}

Status fits_in_memory(uint64_t bytes) {
  const uint64_t left = memory_left();
  if (bytes <= left) return Done{};
  return world_error(fmt::format("needs {} bytes of memory, of which {} are left",
                                 with_commas(bytes), with_commas(left)));
}

// --- streams

class ContentReader::Stream {
 public:
  virtual ~Stream() = default;
  virtual Result<size_t> read(std::span<uint8_t> to) = 0;
};

class ContentReader::Plain final : public Stream {
 public:
  explicit Plain(InputFile file) : file_(std::move(file)) {}

  Result<size_t> read(std::span<uint8_t> to) override {
    const size_t count = std::min<uint64_t>(to.size(), file_.size() - at_);
    if (Status got = file_.read(at_, to.data(), count); !got) return got.error();
    at_ += count;
    return count;
  }

 private:
  const InputFile file_;
  uint64_t at_ = 0;
};

class ContentReader::Gzip final : public Stream {
 public:
  /// A null stream: errno says why.
  explicit Gzip(const InputFile& file)
      : path_(file.path()), file_(gzdopen(::dup(file.fd()), "rb"), gzclose) {
    if (file_) gzbuffer(file_.get(), 1 << 17);
  }

  Result<size_t> read(std::span<uint8_t> to) override {
    if (!file_) return cannot_read(path_);
    const size_t wanted = std::min(to.size(), kChunkBytes);
    const int got = gzread(file_.get(), to.data(), static_cast<unsigned>(wanted));
    unpacked_ += static_cast<size_t>(std::max(got, 0));
    if (got == static_cast<int>(wanted)) return wanted;
    int code = Z_OK;
    const std::string why = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return static_cast<size_t>(got);
    if (code == Z_ERRNO) return cannot_read(path_);
    const bool is_cut = code == Z_BUF_ERROR;
    return breaks(path_, "gzip", is_cut, unpacked_, is_cut ? "" : " (" + why + ")");
  }

 private:
  const std::string path_;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  size_t unpacked_ = 0;
};

class ContentReader::Xz final : public Stream {
 public:
  explicit Xz(InputFile file) : file_(std::move(file)), packed_(kChunkBytes) {
    GV_CHECK(lzma_stream_decoder(&stream_, kXzMemoryBytes, LZMA_CONCATENATED) == LZMA_OK);
  }
  ~Xz() override { lzma_end(&stream_); }

  Result<size_t> read(std::span<uint8_t> to) override {
    stream_.next_out = to.data();
    stream_.avail_out = to.size();
    while (stream_.avail_out > 0 && !ended_) {
      if (stream_.avail_in == 0 && at_ < file_.size())
        if (Status filled = fill(); !filled) return filled.error();
      const lzma_ret code = lzma_code(&stream_, at_ < file_.size() ? LZMA_RUN : LZMA_FINISH);
      ended_ = code == LZMA_STREAM_END;
      if (code == LZMA_OK || ended_) continue;
      return breaks(file_.path(), "xz", code == LZMA_BUF_ERROR, stream_.total_out, "");
    }
    return to.size() - stream_.avail_out;
  }

 private:
  Status fill() {
    const size_t count = std::min<uint64_t>(packed_.size(), file_.size() - at_);
    if (Status got = file_.read(at_, packed_.data(), count); !got) return got;
    at_ += count;
    stream_.next_in = packed_.data();
    stream_.avail_in = count;
    return Done{};
  }

  const InputFile file_;
  uint64_t at_ = 0;
  Bytes packed_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

ContentReader::ContentReader(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
ContentReader::ContentReader(ContentReader&&) noexcept = default;
ContentReader::~ContentReader() = default;

Result<ContentReader> ContentReader::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  const auto first = file->begin(sizeof kXzMagic);
  if (!first) return first.error();
  const auto begins_with = [&first](const auto& magic) {
    return first->size() >= sizeof magic && std::memcmp(first->data(), magic, sizeof magic) == 0;
  };
  if (begins_with(kXzMagic)) return ContentReader(std::make_unique<Xz>(std::move(*file)));
  if (begins_with(kGzipMagic)) return ContentReader(std::make_unique<Gzip>(*file));
  return ContentReader(std::make_unique<Plain>(std::move(*file)));
}

Result<size_t> ContentReader::read(std::span<uint8_t> to) {
  size_t done = 0;
  while (done < to.size()) {
    const auto got = stream_->read(to.subspan(done));
    if (!got) return got;
    if (*got == 0) break;
    done += *got;
  }
  return done;
}

Result<Bytes> read_whole_file(const std::string& path, size_t limit_bytes) {
  auto content = ContentReader::open(path);
  if (!content) return content.error();
  Bytes bytes;
  while (true) {
    const size_t had = bytes.size();
    bytes.resize(had + kChunkBytes);
    const auto got = content->read(std::span(bytes).subspan(had));
    if (!got) return got.error();
    bytes.resize(had + *got);
    if (bytes.size() > limit_bytes)
      return world_error(fmt::format("{} holds more than the {} bytes that are accepted", path,
                                     with_commas(limit_bytes)));
    if (*got < kChunkBytes) return bytes;
  }
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

}  // namespace grapevine
