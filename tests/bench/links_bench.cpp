// Links against a plain blocking socket in the same run, as ratios of medians of interleaved
// rounds. Arguments: rounds (5).
//
// What is compared: a control message to a thread of the other node and back (ping), 32 of them in
// flight, payloads of 1 and 64 MiB with an answer each, payloads both ways at once, and the control
// ping while payloads cross.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/transport/links.hpp"

using namespace grapevine;

namespace {

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

// ---- the plain blocking socket ------------------------------------------------------------------

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

/// Seconds of each of `n` pings.
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

/// Round trips per second with `window` in flight.
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

/// One payload after another, each answered by a byte; `both`: as many the other way at once.
/// Payload bytes per second and direction.
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

// ---- links --------------------------------------------------------------------------------------

/// A counter that a thread can wait for, as an actor waits for its mailbox.
class Mailbox {
 public:
  void put() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_one();
  }
  void take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ > 0; });
    --count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

struct Node {
  Mailbox ups, messages, frames;
  SnapshotPool* pool = nullptr;
  bool echoes = false;
  std::unique_ptr<Links> links;
  std::string other;

  Node(const std::string& name, const std::string& peer, LinksOptions options) : other(peer) {
    options.listen = "127.0.0.1:0";
    options.self.node = name;
    LinkEvents e;
    e.up = [this](const Hello&) { ups.put(); };
    e.control = [this](const std::string&, ControlMessage) { messages.put(); };
    e.frame = [this](const std::string&, Frame frame) {
      if (frame.payload) {
        frame.payload = {};
        frames.put();
      } else {
        messages.put();
      }
    };
    e.buffer = [this](const FrameHeader&) { return pool->take(); };
    auto opened = Links::open(std::move(options), std::move(e));
    if (!opened) std::exit(1);
    links = *std::move(opened);
  }
};

struct Both {
  SnapshotPool of_a, of_b;
  Node a, b;

  Both(const LinksOptions& options, size_t bytes)
      : of_a(bytes, DType::bytes, 8),
        of_b(bytes, DType::bytes, 8),
        a("a", "b", options),
        b("b", "a", options) {
    a.pool = &of_a;
    b.pool = &of_b;
    a.links->dial(b.links->address());
    a.ups.take();
    b.ups.take();
  }
};

FrameHeader offer() { return {}; }

std::vector<double> link_pings(const LinksOptions& options, int n) {
  Both nodes(options, 8);
  std::thread echo([&] {
    for (int k = 0; k < n; ++k) {
      nodes.b.messages.take();
      nodes.b.links->send_frame("a", offer(), {});
    }
  });
  std::vector<double> times;
  for (int k = 0; k < n; ++k) {
    const double start = now_s();
    nodes.a.links->send_frame("b", offer(), {});
    nodes.a.messages.take();
    times.push_back(now_s() - start);
  }
  echo.join();
  return times;
}

double link_rate(const LinksOptions& options, int n, int window) {
  Both nodes(options, 8);
  std::thread echo([&] {
    for (int k = 0; k < n; ++k) {
      nodes.b.messages.take();
      nodes.b.links->send_frame("a", offer(), {});
    }
  });
  const double start = now_s();
  for (int k = 0; k < n + window; ++k) {
    if (k >= window) nodes.a.messages.take();
    if (k < n) nodes.a.links->send_frame("b", offer(), {});
  }
  const double seconds = now_s() - start;
  echo.join();
  return n / seconds;
}

/// As plain_bulk; the answer is a control message.
double link_bulk(const LinksOptions& options, size_t bytes, int n, bool both) {
  Both nodes(options, bytes);
  const auto send = [&](Node& from, SnapshotPool& pool, int times) {
    FrameHeader h;
    h.kind = FrameKind::data;
    h.dtype = DType::bytes;
    h.count = bytes;
    const Payload p{pool.take(), DType::bytes, bytes, 0};
    for (int k = 0; k < times; ++k) {
      from.links->send_frame(from.other, h, p);
      from.messages.take();
    }
  };
  const auto receive = [&](Node& at, int times) {
    for (int k = 0; k < times; ++k) {
      at.frames.take();
      at.links->send_frame(at.other, offer(), {});
    }
  };
  const auto run = [&](int times) {
    std::vector<std::thread> threads;
    threads.emplace_back([&] { send(nodes.a, nodes.of_a, times); });
    threads.emplace_back([&] { receive(nodes.b, times); });
    if (both) {
      threads.emplace_back([&] { send(nodes.b, nodes.of_b, times); });
      threads.emplace_back([&] { receive(nodes.a, times); });
    }
    for (auto& t : threads)
      t.join();
  };
  run(2);  // the link opens, the buffers are touched
  const double start = now_s();
  run(n);
  return double(bytes) * n / (now_s() - start);
}

// ---- a table ------------------------------------------------------------------------------------

using Measure = std::function<double()>;

void compare(const char* what, const char* unit, double scale, bool time, double wanted, int rounds,
             const Measure& plain, const Measure& link) {
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
  std::printf("%-34s %9.2f %9.2f %-5s ratio %5.2f  wanted %s %.2f  %s  cpu %5.2f\n", what,
              median(plains) * scale, median(links) * scale, unit, ratio,
              time ? "<=" : ">=", wanted,
              (time ? ratio <= wanted : ratio >= wanted) ? "ok  " : "LESS", link_cpu / plain_cpu);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  LinksOptions tcp;
  tcp.same_host = false;
  LinksOptions secure = tcp;
  secure.key = RunKey::generate();
  std::printf("%-34s %9s %9s\n", "", "plain", "link");
  compare(
      "ping, median", "us", 1e6, true, 3, rounds, [] { return median(plain_pings(5000)); },
      [&] { return median(link_pings(tcp, 5000)); });
  compare(
      "ping, 99 %", "us", 1e6, true, 3, rounds, [] { return quantile(plain_pings(5000), 0.99); },
      [&] { return quantile(link_pings(tcp, 5000), 0.99); });
  compare(
      "ping with TLS, median", "us", 1e6, true, 4, rounds, [] { return median(plain_pings(5000)); },
      [&] { return median(link_pings(secure, 5000)); });
  compare(
      "32 in flight", "k/s", 1e-3, false, 0.8, rounds, [] { return plain_rate(50000, 32); },
      [&] { return link_rate(tcp, 50000, 32); });
  const size_t kOne = 1 << 20, kMany = 64 << 20;
  compare(
      "1 MiB", "GB/s", 1e-9, false, 0.9, rounds, [&] { return plain_bulk(kOne, 300, false); },
      [&] { return link_bulk(tcp, kOne, 300, false); });
  compare(
      "64 MiB", "GB/s", 1e-9, false, 0.9, rounds, [&] { return plain_bulk(kMany, 8, false); },
      [&] { return link_bulk(tcp, kMany, 8, false); });
  compare(
      "1 MiB both ways", "GB/s", 1e-9, false, 0.8, rounds,
      [&] { return plain_bulk(kOne, 300, true); }, [&] { return link_bulk(tcp, kOne, 300, true); });
  compare(
      "64 MiB both ways", "GB/s", 1e-9, false, 0.8, rounds,
      [&] { return plain_bulk(kMany, 8, true); }, [&] { return link_bulk(tcp, kMany, 8, true); });
  compare(
      "1 MiB with TLS", "GB/s", 1e-9, false, 0.15, rounds,
      [&] { return plain_bulk(kOne, 300, false); },
      [&] { return link_bulk(secure, kOne, 300, false); });
}
