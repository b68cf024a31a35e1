// A node of the transport's tests: links whose events are kept, and waits for them without
// sleeping.
#pragma once
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/transport/links.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"

namespace grapevine {

/// The run key of all nodes of a test program.
inline const RunKey& key_of_tests() {
  static const RunKey key = RunKey::generate();
  return key;
}

/// TCP without a key, as it has to be asked for: where a plain socket plays the other end.
inline LinksOptions without_key(LinksOptions options = {}) {
  options.no_key = true;
  return options;
}

class TestNode {
 public:
  struct Arrived {
    std::string from;
    FrameHeader header;
    Lease payload;
  };

  struct ArrivedParcel {
    std::string from;
    Parcel parcel;
    Payload payload;
  };

  struct Lent {  // to this node
    std::string from;
    LentMemory memory;
    std::shared_ptr<MemoryLine> line;
  };

  /// On TCP with key_of_tests(), unless the options say otherwise; "local": by its name.
  explicit TestNode(const std::string& name, LinksOptions options = {}, uint32_t incarnation = 1)
      : pool_(1 << 20, DType::f32, 64) {
    if (options.listen.empty() && !options.no_key && !options.key) options.key = key_of_tests();
    options.no_key = !options.key;
    if (options.listen.empty()) options.listen = "127.0.0.1:0";
    if (options.listen == "local") options.listen.clear();
    options.self.node = name;
    options.self.incarnation = incarnation;
    if (options.self.run.empty()) options.self.run = "test";
    auto opened = Links::open(std::move(options), events());
    INFO((opened ? "" : opened.error().message));
    REQUIRE(opened);
    links_ = *std::move(opened);
  }

  Links& links() { return *links_; }
  const std::string& address() const { return links_->address(); }
  void end() { links_ = nullptr; }

  /// Waits until `holds`, which sees what has come; false after ten seconds.
  template <class Holds>
  bool wait(Holds holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), holds);
  }
  bool wait_up(const std::string& node, size_t times = 1) {
    return wait([&] { return ups[node].size() >= times; });
  }
  bool wait_down(const std::string& node, size_t times = 1) {
    return wait([&] { return downs[node].size() >= times; });
  }
  template <class Look>
  auto look(Look look) {
    const std::lock_guard lock(mutex_);
    return look();
  }

  // The events so far. Read them in wait and look only.
  std::map<std::string, std::vector<Hello>> ups;
  std::map<std::string, std::vector<std::string>> downs;  // the reasons
  std::vector<std::pair<std::string, ControlMessage>> messages;
  std::vector<Arrived> frames;
  std::vector<ArrivedParcel> parcels;
  std::vector<std::string> bulk_ends;
  std::vector<std::string> contested;
  std::vector<std::string> failures, turned_away;  // "refused: " before a dial's where it was
  std::vector<std::pair<uint64_t, ConsoleRequest>> requests;
  std::vector<uint64_t> consoles_gone;
  std::vector<Lent> lent;
  std::vector<LineNote> notes;  // of all lines
  size_t line_ends = 0;
  bool no_buffers = false;
  LineEvents line_events() {
    return {[this](const LineNote& said) { note([&] { notes.push_back(said); }); },
            [this] { note([&] { ++line_ends; }); }};
  }
  SnapshotPool& pool() { return pool_; }

 private:
  template <class Change>
  void note(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  Lease buffer_of(uint64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (no_buffers) return {};
    }
    if (bytes <= (4u << 20)) return pool_.take();
    SnapshotPool large(bytes, DType::bytes, 1);
    return large.take();
  }

  LinkEvents events() {
    LinkEvents e;
    e.up = [this](const Hello& h) { note([&] { ups[h.node].push_back(h); }); };
    e.down = [this](const std::string& node, uint32_t, const std::string& reason) {
      note([&] { downs[node].push_back(reason); });
    };
    e.control = [this](const std::string& node, ControlMessage m) {
      note([&] { messages.emplace_back(node, std::move(m)); });
    };
    e.frame = [this](const std::string& node, Frame frame) {
      note([&] { frames.push_back({node, frame.header, std::move(frame.payload)}); });
    };
    e.parcel = [this](const std::string& node, const Parcel& parcel, Payload payload) {
      note([&] { parcels.push_back({node, parcel, std::move(payload)}); });
    };
    e.dial_failed = [this](const std::string&, const std::string& reason, bool refused) {
      note([&] { failures.push_back((refused ? "refused: " : "") + reason); });
    };
    e.contested = [this](const std::string& name) { note([&] { contested.push_back(name); }); };
    e.turned_away = [this](const std::string&, const std::string& reason) {
      note([&] { turned_away.push_back(reason); });
    };
    e.console = [this](uint64_t console, ConsoleRequest request) {
      note([&] { requests.emplace_back(console, std::move(request)); });
    };
    e.console_gone = [this](uint64_t console) { note([&] { consoles_gone.push_back(console); }); };
    e.bulk_ended = [this](const std::string&, uint64_t lost, const std::string& reason) {
      note([&] { bulk_ends.push_back(std::to_string(lost) + " lost: " + reason); });
    };
    e.lent = [this](const std::string& node, const LentMemory& memory,
                    std::shared_ptr<MemoryLine> line) {
      note([&] { lent.push_back({node, memory, std::move(line)}); });
      return line_events();
    };
    e.buffer = [this](const FrameHeader& h) { return buffer_of(payload_bytes(h)); };
    e.parcel_buffer = [this](const std::string&, const Parcel& p) {
      return buffer_of(payload_bytes(p));
    };
    return e;
  }

  SnapshotPool pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Links> links_;  // last: its threads call into the rest
};

inline void connect(TestNode& a, TestNode& b, const std::string& name_a,
                    const std::string& name_b) {
  a.links().dial(b.address());
  const bool up = a.wait_up(name_b);
  INFO(a.look([&] { return a.failures.empty() ? std::string() : a.failures.back(); }));
  REQUIRE(up);
  REQUIRE(b.wait_up(name_a));
}

inline MembershipPacket ping(uint64_t sequence) {
  MembershipPacket m;
  m.sequence = sequence;
  return m;
}

}  // namespace grapevine
