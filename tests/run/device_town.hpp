// A town of nodes with a device each, for tests of what goes between them: their links, their
// owners and their time are one queue, on one seed.
#pragma once
#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/device/device_links.hpp"
#include "tests/device/adversary.hpp"
#include "tests/device/nccl_world.hpp"
#include "tests/device/owner_tasks.hpp"

namespace grapevine::testing {

constexpr size_t kCount = 25, kSlots = 8;  // floats; a node may have two of the slots in place
inline const std::set<std::string> kNothing;

class Town;

/// One end of a line between two of the town, or in a test's hands.
struct End final : MemoryLine {
  End(Town& town, std::string owner, std::shared_ptr<End*> other, std::shared_ptr<End*> self)
      : town(town), owner(std::move(owner)), other(std::move(other)), self(std::move(self)) {
    *this->self = this;
  }
  ~End() override;
  bool send(const LineNote&) override;
  void finish() override;
  void tell_end();

  Town& town;
  std::string owner;
  std::shared_ptr<End*> other, self;  // null behind it: gone
  LineEvents events;
  bool is_over = false;
  std::vector<LineNote> heard;  // of one in a test's hands
  size_t ends = 0;
};

/// A node: its device and owner, whose tasks wait in the town's one queue; a rank of its own
/// number.
struct Home final : Links {
  Home(Town& town, const std::string& name, uint32_t rank, DeviceLink, int nccl_version);

  Payload filled_with(float value, size_t count = kCount);
  void send(uint32_t to, float value, uint64_t number = 1, size_t count = kCount);
  /// A pass on the device checks that the received value is the sent one.
  void check_value(const Frame&, float value);

  // Links.
  const std::string& address() const override { return name; }
  const PublicKey& key() const override { return own_key; }
  void know(const std::string&, uint64_t) override {}
  void dial(const std::string&) override {}
  bool send(const std::string& node, const ControlMessage&) override;
  bool send_frame(const std::string& node, const FrameHeader&, const Payload&,
                  std::optional<uint64_t>) override;
  bool send_parcel(const std::string&, const Parcel&, const Payload&) override { return true; }
  std::shared_ptr<MemoryLine> lend(const std::string& node, const LentMemory&, LineEvents) override;
  void reply(uint64_t, const ConsoleReply&) override {}
  void close(const std::string&) override {}
  LinkCounts counts(const std::string&) const override { return {}; }
  LinkCounts totals() const override { return {}; }
  LinkRefusals refusals() const override { return {}; }

  DeviceEdge edge(const std::string& node) const;

  Town& town;
  std::string name;
  uint32_t rank;
  std::unique_ptr<Adversary> device;
  std::shared_ptr<DeviceShare> share;
  std::unique_ptr<SnapshotPool> pool;
  SnapshotPool arrivals{kCount * sizeof(float), DType::bytes, 256};  // by the host's memory
  std::shared_ptr<LinkTransport> transport;
  std::shared_ptr<DeviceLinks> links;
  std::vector<Frame> came;
  int sent_by_host = 0;
  bool takes_no_messages = false;  // its links
  std::vector<std::string> lines;
  const PublicKey own_key = {1};
};

/// Nodes a, b and c with the ranks 0, 1 and 2; "evil" and "Evil", a higher and a lower name, are in
/// a test's hands, of the ranks 3 and 4.
class Town {
 public:
  using Wishes = std::array<DeviceLink, 3>;
  static constexpr Wishes kInPlace{DeviceLink::vmm, DeviceLink::automatic, DeviceLink::automatic};
  static constexpr Wishes kByNccl{DeviceLink::nccl, DeviceLink::nccl, DeviceLink::nccl};

  /// `version_of_c`: of its NCCL.
  explicit Town(uint64_t seed, const Wishes& = kInPlace, int version_of_c = NcclWorld::kVersion);
  ~Town();

  Home& operator[](const std::string& name) { return *homes[static_cast<size_t>(name[0] - 'a')]; }
  void later(std::function<void()> task) { tasks.later(std::move(task)); }
  void go_on() { tasks.go_on(); }
  void go_on(double for_s) {
    bool there = false;
    world.after(for_s, [&there] { there = true; });
    while (!there && tasks.step()) {
    }
  }
  /// A message takes along what its sender knows.
  void carry(const std::string& from, const std::string& to, std::function<void()> what) {
    if (is_evil(from) || is_evil(to)) return later(std::move(what));
    Adversary& sender = *(*this)[from].device;
    const Judge::Clock known = world.judge().clock(sender.host());
    world.judge().tick(sender.host());
    later([this, to, known, what = std::move(what)] {
      world.judge().learn((*this)[to].device->host(), known);
      what();
    });
  }

  /// From a node in a test's hands, and what such nodes were told.
  void tell(const std::string& from, const std::string& to, const NcclTalk&);
  struct Said {
    std::string from, to;
    NcclTalk what;
  };
  std::vector<Said> said_to_evil;
  static bool is_evil(const std::string& name) { return name == kEvil || name == kLowEvil; }
  /// The link between two ends, and stands again.
  void cut(const std::string& one, const std::string& other);

  static constexpr char kEvil[] = "evil", kLowEvil[] = "Evil";
  AdverseWorld world;
  NcclWorld nccl{world};
  OwnerTasks tasks{world};
  std::vector<std::unique_ptr<Home>> homes;
  End* evil = nullptr;  // its end of the last line that was opened to it
  std::shared_ptr<End> evil_kept;
  LentMemory lent_to_evil;
};

/// A line between two of the town: an end each.
std::pair<std::shared_ptr<End>, std::shared_ptr<End>> make_line(Town&, const std::string& from,
                                                                const std::string& to);

}  // namespace grapevine::testing
