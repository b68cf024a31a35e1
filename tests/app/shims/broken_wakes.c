/* Preloaded into the program: each $FAILS_EVERY-th read and write of an eventfd fails, as no kernel
   lets them fail; with $NO_EVENTS so does each wait for events. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/types.h>

enum { MOST = 4096 };
static atomic_bool is_event[MOST];
static atomic_long asked;

int eventfd(unsigned count, int flags) {
  int (*real)(unsigned, int) = dlsym(RTLD_NEXT, "eventfd");
  const int fd = real(count, flags);
  if (fd >= 0 && fd < MOST) is_event[fd] = 1;
  return fd;
}

int close(int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, "close");
  if (fd >= 0 && fd < MOST) is_event[fd] = 0;
  return real(fd);
}

static int fails(int fd) {
  const char* text = getenv("FAILS_EVERY");
  if (text == NULL || fd < 0 || fd >= MOST || !is_event[fd]) return 0;
  return (atomic_fetch_add(&asked, 1) + 1) % atol(text) == 0;
}

ssize_t read(int fd, void* to, size_t bytes) {
  ssize_t (*real)(int, void*, size_t) = dlsym(RTLD_NEXT, "read");
  if (!fails(fd)) return real(fd, to, bytes);
  errno = ECONNRESET;
  return -1;
}

ssize_t write(int fd, const void* from, size_t bytes) {
  ssize_t (*real)(int, const void*, size_t) = dlsym(RTLD_NEXT, "write");
  if (!fails(fd)) return real(fd, from, bytes);
  errno = EPIPE;
  return -1;
}

int epoll_wait(int fd, struct epoll_event* events, int most, int timeout) {
  int (*real)(int, struct epoll_event*, int, int) = dlsym(RTLD_NEXT, "epoll_wait");
  if (getenv("NO_EVENTS") == NULL) return real(fd, events, most, timeout);
  errno = EBADF;
  return -1;
}
