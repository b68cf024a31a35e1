// Peers: the table of links for all threads, with the queues for each node and the counters.
#pragma once
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/bulk_queue.hpp"
#include "actors/transport/control_link.hpp"
#include "actors/transport/links.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// Counts by reason, over all other processes.
class RefusalCounters {
 public:
  void count(LinkRefusal why) { ++counts_[static_cast<size_t>(why)]; }
  LinkRefusals values() const {
    LinkRefusals values{};
    std::copy(counts_.begin(), counts_.end(), values.begin());
    return values;
  }

 private:
  std::array<std::atomic<uint64_t>, kLinkRefusals> counts_{};
};

/// A link that is up, or was.
struct Peer {
  struct Counters {
    std::atomic<uint64_t> messages_sent{0}, messages_received{0};
    std::atomic<uint64_t> message_bytes_sent{0}, message_bytes_received{0};
    std::atomic<uint64_t> frames_sent{0}, frames_received{0};
    std::atomic<uint64_t> frame_bytes_sent{0}, frame_bytes_received{0};
    std::atomic<uint64_t> parcels_sent{0}, parcels_received{0};
    std::atomic<uint64_t> parcel_bytes_sent{0}, parcel_bytes_received{0};
    std::atomic<uint64_t> in_place_bytes_sent{0};
    std::atomic<uint64_t> refused{0}, discarded{0}, lost{0}, corrupt{0};
    std::atomic<double> round_trip_s{0};
    std::atomic<BulkPath> bulk{BulkPath::none};

    void sent(const BulkHeader& h) {
      const bool parcel = std::holds_alternative<Parcel>(h);
      ++(parcel ? parcels_sent : frames_sent);
      (parcel ? parcel_bytes_sent : frame_bytes_sent) += kHeaderBytes + payload_bytes(h);
    }
    void received(const BulkHeader& h) {
      const bool parcel = std::holds_alternative<Parcel>(h);
      ++(parcel ? parcels_received : frames_received);
      (parcel ? parcel_bytes_received : frame_bytes_received) += kHeaderBytes + payload_bytes(h);
    }
    LinkCounts values() const {
      return {messages_sent,
              messages_received,
              message_bytes_sent,
              message_bytes_received,
              frames_sent,
              frames_received,
              frame_bytes_sent,
              frame_bytes_received,
              parcels_sent,
              parcels_received,
              parcel_bytes_sent,
              parcel_bytes_received,
              in_place_bytes_sent,
              refused,
              discarded,
              lost,
              corrupt,
              round_trip_s,
              bulk};
    }
  };

  Hello hello;
  uint64_t connection = 0;  // its number in this process
  bool dialled = false;     // by us: then we dial the bulk link too
  std::string address;      // that was dialled
  std::shared_ptr<Outbox> outbox;
  std::shared_ptr<BulkQueue> bulk;
  const std::shared_ptr<Counters> counted = std::make_shared<Counters>();
  Counters& counters = *counted;
};

/// By the node's name.
class PeerTable {
 public:
  std::shared_ptr<Peer> find(const std::string& node) const {
    const Lock lock(mutex_);
    const auto found = peers_.find(node);
    return found == peers_.end() ? nullptr : found->second;
  }
  void put(const std::shared_ptr<Peer>& peer) {
    const Lock lock(mutex_);
    auto& place = peers_[peer->hello.node];
    if (place) retire(*place);
    place = peer;
  }
  void remove(const Peer& peer) {
    const Lock lock(mutex_);
    const auto found = peers_.find(peer.hello.node);
    if (found == peers_.end() || found->second.get() != &peer) return;
    retire(peer);
    peers_.erase(found);
  }
  /// The sum over all that were ever put here.
  LinkCounts totals() const {
    const Lock lock(mutex_);
    LinkCounts sum = retired_counts_;
    for (const auto& counted : retired_)
      sum += counted->values();
    for (const auto& [node, peer] : peers_)
      sum += peer->counters.values();
    return sum;
  }

 private:
  // A thread that still has the entry may go on counting. Once no thread has it, its counts are
  // added to the totals.
  void retire(const Peer& peer) GV_REQUIRES(mutex_) {
    std::erase_if(retired_,
                  [this](const std::shared_ptr<const Peer::Counters>& old) GV_REQUIRES(mutex_) {
                    if (old.use_count() > 1) return false;
                    retired_counts_ += old->values();
                    return true;
                  });
    retired_.push_back(peer.counted);
  }

  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Peer>> peers_ GV_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const Peer::Counters>> retired_ GV_GUARDED_BY(mutex_);
  LinkCounts retired_counts_ GV_GUARDED_BY(mutex_);
};

}  // namespace grapevine
