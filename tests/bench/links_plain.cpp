#include "tests/bench/links_plain.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "kernels/passes/ops.hpp"

namespace grapevine {
namespace {

void write_all(int fd, const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n <= 0) std::exit(1);
    at += n;
    size -= size_t(n);
  }
}

void read_all(int fd, void* data, size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::read(fd, at, size);
    if (n <= 0) std::exit(1);
    at += n;
    size -= size_t(n);
  }
}

struct Pair {
  int a = -1, b = -1;
  ~Pair() {
    ::close(a);
    ::close(b);
  }
};

std::unique_ptr<Pair> plain_pair() {
  auto pair = std::make_unique<Pair>();
  const int port = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ::bind(port, reinterpret_cast<sockaddr*>(&at), sizeof at);
  ::listen(port, 1);
  ::getsockname(port, reinterpret_cast<sockaddr*>(&at), &size);
  pair->a = ::socket(AF_INET, SOCK_STREAM, 0);
  ::connect(pair->a, reinterpret_cast<sockaddr*>(&at), sizeof at);
  pair->b = ::accept(port, nullptr, nullptr);
  ::close(port);
  const int yes = 1;
  for (const int fd : {pair->a, pair->b})
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return pair;
}

constexpr size_t kSmall = 64;

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_s() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, size_t(q * double(v.size())))];
}

std::vector<double> plain_pings(int n) {
  const auto pair = plain_pair();
  std::thread echo([&] {
    char m[kSmall];
    for (int k = 0; k < n; ++k) {
      read_all(pair->b, m, sizeof m);
      write_all(pair->b, m, sizeof m);
    }
  });
  std::vector<double> times;
  char m[kSmall] = {};
  for (int k = 0; k < n; ++k) {
    const double start = now_s();
    write_all(pair->a, m, sizeof m);
    read_all(pair->a, m, sizeof m);
    times.push_back(now_s() - start);
  }
  echo.join();
  return times;
}

double plain_rate(int n, int window) {
  const auto pair = plain_pair();
  std::thread echo([&] {
    char m[kSmall];
    for (int k = 0; k < n; ++k) {
      read_all(pair->b, m, sizeof m);
      write_all(pair->b, m, sizeof m);
    }
  });
  char m[kSmall] = {};
  const double start = now_s();
  for (int k = 0; k < n + window; ++k) {
    if (k >= window) read_all(pair->a, m, sizeof m);
    if (k < n) write_all(pair->a, m, sizeof m);
  }
  const double seconds = now_s() - start;
  echo.join();
  return n / seconds;
}

double plain_bulk(size_t bytes, int n, bool both) {
  const auto one = plain_pair(), other = plain_pair();
  const auto send = [&](int fd) {
    std::vector<char> data(bytes, 1);
    char head[96] = {}, ack;
    for (int k = 0; k < n; ++k) {
      iovec pieces[2] = {{head, sizeof head}, {data.data(), data.size()}};
      const ssize_t first = ::writev(fd, pieces, 2);
      if (first < ssize_t(sizeof head)) std::exit(1);
      write_all(fd, data.data() + (first - ssize_t(sizeof head)),
                bytes + sizeof head - size_t(first));
      read_all(fd, &ack, 1);
    }
  };
  const auto receive = [&](int fd) {
    std::vector<char> data(bytes);
    char head[96], ack = 1;
    for (int k = 0; k < n; ++k) {
      read_all(fd, head, sizeof head);
      read_all(fd, data.data(), bytes);
      write_all(fd, &ack, 1);
    }
  };
  std::vector<std::thread> threads;
  const double start = now_s();
  threads.emplace_back([&] { send(one->a); });
  threads.emplace_back([&] { receive(one->b); });
  if (both) {
    threads.emplace_back([&] { send(other->b); });
    threads.emplace_back([&] { receive(other->a); });
  }
  for (auto& t : threads)
    t.join();
  return double(bytes) * n / (now_s() - start);
}

double copy_and_mix(size_t elements, int n) {
  const auto side = [&] {
    std::vector<float> x(elements, 1.0f), snapshot(elements), theirs(elements, 1.0f);
    const double start = now_s();
    for (int k = 0; k < n; ++k) {
      std::memcpy(snapshot.data(), x.data(), 4 * elements);
      const Term half[2] = {{0.5, {x.data(), elements, DType::f32}},
                            {0.5, {theirs.data(), elements, DType::f32}}};
      combine({}, half, {x.data(), elements, DType::f32});
    }
    return (now_s() - start) / n;
  };
  std::thread other(side);
  const double seconds = side();
  other.join();
  return seconds;
}

void compare(const char* what, const char* unit, double scale, bool time, double wanted, int rounds,
             const std::function<double()>& plain, const std::function<double()>& link,
             double gigabytes) {
  std::vector<double> plains, links, ratios;
  double plain_cpu = 0, link_cpu = 0;
  for (int k = 0; k < rounds; ++k) {
    double before = cpu_s();
    plains.push_back(plain());
    plain_cpu += cpu_s() - before;
    before = cpu_s();
    links.push_back(link());
    link_cpu += cpu_s() - before;
    ratios.push_back(links.back() / plains.back());
  }
  const double ratio = median(ratios);
  std::printf("%-34s %9.2f %9.2f %-5s ratio %5.2f  wanted %s %.2f  %s  cpu %5.2f", what,
              median(plains) * scale, median(links) * scale, unit, ratio,
              time ? "<=" : ">=", wanted,
              (time ? ratio <= wanted : ratio >= wanted) ? "ok  " : "LESS", link_cpu / plain_cpu);
  if (gigabytes > 0)
    std::printf(", s/GB %.2f %.2f", plain_cpu / rounds / gigabytes, link_cpu / rounds / gigabytes);
  std::printf("\n");
}

}  // namespace grapevine
