// Two nodes with a link between them, whose threads wait as actors do: what links_bench measures.
#pragma once
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "actors/transport/links.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

inline const FrameHeader kOffer;

/// A counter that a thread can wait for, as an actor waits for its mailbox.
class Mailbox {
 public:
  void put() {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
    }
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
  bool keeps = false;
  Lease kept;
  std::unique_ptr<Links> links;
  std::string other;

  Node(const std::string& name, const std::string& peer, LinksOptions options) : other(peer) {
    options.listen = "127.0.0.1:0";
    options.no_key = !options.key;
    options.self.node = name;
    LinkEvents e;
    e.up = [this](const Hello&) { ups.put(); };
    e.control = [this](const std::string&, ControlMessage) { messages.put(); };
    e.frame = [this](const std::string&, Frame frame) {
      if (frame.payload) {
        if (keeps) kept = std::move(frame.payload);
        frame.payload = {};
        frames.put();
      } else {
        messages.put();
      }
    };
    e.buffer = [this](const FrameHeader&) { return pool->take(); };
    e.bulk_ended = [name](const std::string& node, uint64_t lost, const std::string& reason) {
      if (lost == 0) return;
      std::fprintf(stderr, "%s lost %d payloads to %s: %s\n", name.c_str(), int(lost), node.c_str(),
                   reason.c_str());
    };
    auto opened = Links::open(std::move(options), std::move(e));
    if (!opened) std::exit(1);
    links = *std::move(opened);
  }
};

inline SnapshotPool::Memory memory_of(const LinksOptions& options) {
  return options.same_host ? SnapshotPool::Memory::shared : SnapshotPool::Memory::own;
}

struct Both {
  SnapshotPool of_a, of_b;
  Node a, b;

  Both(const LinksOptions& options, size_t bytes)
      : of_a(bytes, DType::bytes, 8, memory_of(options)),
        of_b(bytes, DType::bytes, 8, memory_of(options)),
        a("a", "b", options),
        b("b", "a", options) {
    a.pool = &of_a;
    b.pool = &of_b;
    a.links->dial(b.links->address());
    a.ups.take();
    b.ups.take();
  }
  void echo(int n) {
    for (int k = 0; k < n; ++k) {
      b.messages.take();
      b.links->send_frame("a", kOffer, {});
    }
  }
};

}  // namespace grapevine
