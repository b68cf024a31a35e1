// Descriptor: a file descriptor that closes with the object. Also complete reads and writes: the
// system may transfer less at a time, or be interrupted.
#pragma once
#include <cstddef>
#include <string>
#include <utility>

namespace grapevine {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Memory that can be sealed and never executed. Empty: the system refuses it.
Descriptor make_memory(const char* name);

// Each returns whether it succeeded; if not, errno has the reason.

/// Writes all bytes at the file's present position.
bool write_all(int fd, const void* data, size_t bytes);

/// Reads this many bytes from the file's beginning; false also if the file has fewer.
bool read_all(int fd, void* data, size_t bytes);

/// True also if the file system reports that it cannot flush a folder.
bool sync_folder(const std::string& path);

/// The folder that contains `path`.
std::string parent_of(const std::string& path);

}  // namespace grapevine
