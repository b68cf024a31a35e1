// Links against a plain blocking socket in the same run, as ratios of medians of interleaved
// rounds. Arguments: rounds (5), and a part of the names of the rows that are wanted (all).
//
// Compared: a control message to a thread of the other node and back (ping), 32 of them in
// flight, payloads of 1 and 64 MiB with an answer each, payloads both ways at once, and the control
// ping while payloads cross.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/bench/links_nodes.hpp"
#include "tests/bench/links_plain.hpp"

using namespace grapevine;

namespace {

std::vector<double> link_pings(const LinksOptions& options, int n) {
  Both nodes(options, 8);
  std::thread echo([&] { nodes.echo(n); });
  std::vector<double> times;
  for (int k = 0; k < n; ++k) {
    const double start = now_s();
    nodes.a.links->send_frame("b", kOffer, {});
    nodes.a.messages.take();
    times.push_back(now_s() - start);
  }
  echo.join();
  return times;
}

double link_rate(const LinksOptions& options, int n, int window) {
  Both nodes(options, 8);
  std::thread echo([&] { nodes.echo(n); });
  const double start = now_s();
  for (int k = 0; k < n + window; ++k) {
    if (k >= window) nodes.a.messages.take();
    if (k < n) nodes.a.links->send_frame("b", kOffer, {});
  }
  const double seconds = now_s() - start;
  echo.join();
  return n / seconds;
}

/// As plain_bulk; the answer is a control message. On the same host the receiver copies what it
/// reads in place.
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
  nodes.a.keeps = nodes.b.keeps = options.same_host;
  const auto receive = [&](Node& at, int times) {
    std::vector<std::byte> copy(options.same_host ? bytes : 0);
    for (int k = 0; k < times; ++k) {
      at.frames.take();
      if (at.keeps) {
        std::memcpy(copy.data(), at.kept.vec().data, bytes);
        at.kept = {};
      }
      at.links->send_frame(at.other, kOffer, {});
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

/// Both nodes give the other a snapshot and mix what comes into their own vector, `n` times.
/// Seconds each.
double exchange_and_mix(const LinksOptions& options, size_t elements, int n) {
  SnapshotPool shared_a(elements, DType::f32, 2, memory_of(options));
  SnapshotPool shared_b(elements, DType::f32, 2, memory_of(options));
  Both nodes(options, elements * 4);
  nodes.a.keeps = nodes.b.keeps = true;
  const auto side = [&](Node& node, SnapshotPool& pool, int times) {
    std::vector<float> x(elements, 1.0f);
    FrameHeader h;
    h.kind = FrameKind::data;
    h.count = elements;
    for (int k = 0; k < times; ++k) {
      Payload snapshot{pool.take(), DType::f32, elements, 0};
      std::memcpy(snapshot.writable(DType::f32, elements).data, x.data(), 4 * elements);
      node.links->send_frame(node.other, h, snapshot);
      node.frames.take();
      const Term half[2] = {{0.5, {x.data(), elements, DType::f32}},
                            {0.5, {node.kept.vec().data, elements, DType::f32}}};
      combine({}, half, {x.data(), elements, DType::f32});
      node.kept = {};
      node.links->send_frame(node.other, kOffer, {});
      node.messages.take();
    }
  };
  const auto run = [&](int times) {
    std::thread other([&] { side(nodes.b, shared_b, times); });
    side(nodes.a, shared_a, times);
    other.join();
  };
  run(2);
  const double start = now_s();
  run(n);
  return (now_s() - start) / n;
}

/// Median and 99 % of a ping while payloads of 256 MiB cross both ways, one ping a millisecond.
enum class Bulk { none, plain, links };
std::pair<double, double> pings_beside(Bulk bulk) {
  LinksOptions tcp;
  tcp.same_host = false;
  constexpr size_t kBytes = 256 << 20;
  Both quiet(tcp, 8);
  std::atomic<bool> done{false};
  std::vector<double> times;
  std::thread pings([&] {
    while (bulk == Bulk::none ? times.size() < 1000 : !done) {
      const double start = now_s();
      quiet.a.links->send_frame("b", kOffer, {});
      quiet.b.messages.take();
      quiet.b.links->send_frame("a", kOffer, {});
      quiet.a.messages.take();
      times.push_back(now_s() - start);
      while (now_s() - start < 1e-3)
        std::this_thread::yield();
    }
  });
  if (bulk == Bulk::links) link_bulk(tcp, kBytes, 3, true);
  if (bulk == Bulk::plain) plain_bulk(kBytes, 3, true);
  done = bulk != Bulk::none;
  pings.join();
  return {median(times), quantile(times, 0.99)};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string wanted = argc > 2 ? argv[2] : "";
  const auto row = [&](const std::string& what, auto... rest) {
    if (what.find(wanted) != what.npos) compare(what.c_str(), rest...);
  };
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  LinksOptions tcp;
  tcp.same_host = false;
  LinksOptions secure = tcp;
  secure.key = RunKey::generate();
  std::printf("%-34s %9s %9s\n", "", "plain", "link");
  row(
      "ping, median", "us", 1e6, true, 3, rounds, [] { return median(plain_pings(5000)); },
      [&] { return median(link_pings(tcp, 5000)); });
  row(
      "ping with TLS, median", "us", 1e6, true, 4, rounds, [] { return median(plain_pings(5000)); },
      [&] { return median(link_pings(secure, 5000)); });
  row(
      "32 in flight", "k/s", 1e-3, false, 0.8, rounds, [] { return plain_rate(50000, 32); },
      [&] { return link_rate(tcp, 50000, 32); });
  const size_t kOne = 1 << 20, kMany = 64 << 20;
  const double kOneGB = 300e-9 * double(kOne), kManyGB = 8e-9 * double(kMany);
  LinksOptions near;
  row(
      "1 MiB", "GB/s", 1e-9, false, 0.9, rounds, [&] { return plain_bulk(kOne, 300, false); },
      [&] { return link_bulk(tcp, kOne, 300, false); }, kOneGB);
  row(
      "64 MiB", "GB/s", 1e-9, false, 0.9, rounds, [&] { return plain_bulk(kMany, 8, false); },
      [&] { return link_bulk(tcp, kMany, 8, false); }, kManyGB);
  row(
      "64 MiB in memory, copied out", "GB/s", 1e-9, false, 2, rounds,
      [&] { return plain_bulk(kMany, 8, false); }, [&] { return link_bulk(near, kMany, 8, false); },
      kManyGB);
  row(
      "1 MiB both ways", "GB/s", 1e-9, false, 0.8, rounds,
      [&] { return plain_bulk(kOne, 300, true); }, [&] { return link_bulk(tcp, kOne, 300, true); });
  row(
      "64 MiB both ways", "GB/s", 1e-9, false, 0.8, rounds,
      [&] { return plain_bulk(kMany, 8, true); }, [&] { return link_bulk(tcp, kMany, 8, true); });
  const auto mix = [&](const LinksOptions& options, size_t elements, int n) {
    return [&options, elements, n] { return exchange_and_mix(options, elements, n); };
  };
  row("exchange + mix 1 MiB, TCP : memory", "ms", 1e3, true, 0.5, rounds, mix(tcp, 1 << 18, 100),
      mix(near, 1 << 18, 100));
  row("exchange + mix 64 MiB, TCP : memory", "ms", 1e3, true, 0.5, rounds, mix(tcp, 1 << 24, 5),
      mix(near, 1 << 24, 5));
  row(
      "64 MiB, copy + mix alone : memory", "ms", 1e3, true, 1.2, rounds,
      [] { return copy_and_mix(1 << 24, 5); }, mix(near, 1 << 24, 5));
  row(
      "ping beside 256 MiB, plain : link", "us", 1e6, true, 1.5, rounds,
      [] { return pings_beside(Bulk::plain).first; },
      [] { return pings_beside(Bulk::links).first; });
  row(
      "ping, idle : beside 256 MiB", "us", 1e6, true, 2, rounds,
      [] { return pings_beside(Bulk::none).first; },
      [] { return pings_beside(Bulk::links).first; });
  row(
      "ping beside 256 MiB, 99 %", "us", 1e6, true, 1.5, rounds,
      [] { return pings_beside(Bulk::plain).second; },
      [] { return pings_beside(Bulk::links).second; });
  row(
      "1 MiB with TLS", "GB/s", 1e-9, false, 0.05, rounds,
      [&] { return plain_bulk(kOne, 300, false); },
      [&] { return link_bulk(secure, kOne, 300, false); });
}
