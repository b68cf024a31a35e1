// Descriptor: a file descriptor that is closed with the object, and complete reads and writes: the
// system may transfer less at a time, and be interrupted.
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

/// Memory that can be sealed, and never executed; none: there is none to be had.
Descriptor make_memory(const char* name);

// Each returns whether it succeeded; if not, errno has the reason.

/// All bytes, from the file's present position.
bool write_all(int fd, const void* data, size_t bytes);

/// So many bytes from the file's beginning; false, too, where it has fewer.
bool read_all(int fd, void* data, size_t bytes);

/// A file system that cannot flush a folder reports so, and counts as flushed.
bool sync_folder(const std::string& path);

/// The folder of a path's last name.
std::string parent_of(const std::string& path);

}  // namespace grapevine
