// MemberTable: what one node knows of all nodes, and the epoch that follows from it. A value
// without time, events or I/O: records and specs are added, and knowledge only grows.
//
// Records merge by `newer`, specs by `wins`. Both are total orders, so tables that have received
// the same records are equal, whatever the order. The epoch is a pure function of (spec, members of
// the graph with their incarnations and ranks), in 64 bits:
//
//   high 32   counter = spec.version + sum over all known records of (256 incarnation + phase); the
//             phase is 0 outside the graph, 1 + changes_in in it, 255 once dead or left
//   low 32    a hash of the spec and of the graph's members: name, key, incarnation, ranks, those
//             gone
//
// The counter never decreases. A newer record has a greater incarnation (+256, and the phase loses
// at most 255), or the same incarnation and no lower phase: dead and left are final in an
// incarnation, ranks that left or returned in it stay counted, and a node that leaves the graph
// alive starts a new incarnation. A record of a new node adds at least 256. The counter increases
// whenever the graph's members change. Suspicions, refutations and rates change neither half. If
// two nodes have not yet received the same records, their epochs may have one counter and different
// hashes. Once both have all records, their counter is higher than both. (It wraps at 2^32:
// incarnations count from 1 and are not time stamps.)
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

constexpr uint32_t kAnyRank = 1u << 31;            // as first_rank: whichever are free
constexpr uint64_t kSpecsAtMost = 1u << 30;        // versions
constexpr uint32_t kGenerationsAtMost = 1u << 16;  // of a run
constexpr uint32_t kChangesAtMost = 253;           // of the ranks of a node in one incarnation
constexpr uint32_t kRefutationsAtMost = 1u << 30;  // in one incarnation
// The claims of one member cost all others: they have to store them, to compute the graph for them
// and to test them.
constexpr uint32_t kRanksOfNodeAtMost = 256;
constexpr uint32_t kRankNumbersAtMost = 64 * 1024;  // ranks are numbered below it
constexpr size_t kGraphRanksAtMost = 16 * 1024;     // ranks beyond these wait outside
constexpr uint64_t kStrangersUntil = 1u << 30;  // of the counter below: then names, and leaps of
constexpr uint32_t kLeap = 64;                  // more incarnations than this, are refused
constexpr size_t kMembersAtMost = 4096;         // records kept; later names are refused
constexpr uint32_t kRatePartsAtMost = 128;      // of one member
constexpr size_t kRateFactsAtMost = 4096;       // kept
constexpr size_t kWorkFactsAtMost = 4096;       // likewise
constexpr double kOwnWins = 1.5;  // times as often, or as rarely, as others say of an own edge

uint64_t name_hash(std::string_view);
/// The low half of it: how a record names its accuser.
uint32_t name_mark(std::string_view);

inline bool is_over(const Member& m) {
  return m.state == MemberState::dead || m.state == MemberState::left;
}
inline bool in_graph(const Member& m) {
  return !is_over(m) && m.ready && m.ranks > 0 && m.first_rank != kAnyRank;
}

/// The reason why no node can have such a record, or why it cannot be claimed of a node; null: it
/// is possible.
const char* impossible(const Member&);

/// Whether both records say the same about their node, apart from what other nodes say of it.
bool same_word(const Member&, const Member&);
/// One process has signed both under one number in one life, and they differ.
bool contradict(const Member&, const Member&);

/// The number of departures and returns of the node's ranks in its incarnation, by its list.
uint32_t changes_in(const Member&);

uint32_t last_incarnation(const Member&);  // of the node and of any of its ranks

std::string ranks_of(const Member&);  // "ranks 4 to 7", for the log

/// Whether the rank lives, and in which incarnation. REQUIRES: in_graph, the rank is in its range.
std::optional<uint32_t> incarnation_of(const Member&, uint32_t rank);

/// Whether `a` replaces `b`, a record of the same node: the later one in (incarnation, phase,
/// refutations, state). If these are equal and the rest is not, which no honest node signs, the
/// larger bytes of the two replace the other (messages/facts.hpp), so that all nodes keep the same
/// record.
bool newer(const Member& a, const Member& b);

/// The one of two specs that wins at all nodes.
bool wins(const GraphSpec& a, const GraphSpec& b);

class MemberTable {
 public:
  /// The node itself has index 0; others keep the number that they get when they come.
  MemberTable(Member self, GraphSpec spec);

  struct Merged {
    uint32_t index = 0;
    bool news = false;              // the record is newer than what was known
    std::optional<Member> before;   // of news: what it replaced
    const char* refused = nullptr;  // why: impossible values, or no room
  };
  Merged merge(const Member&);
  bool merge(const GraphSpec&);
  bool merge(const RateFact&);  // of a live member; else it is no news
  bool merge(const WorkFact&);  // of any member with a record, dead or alive
  void name_accuser(uint32_t index, uint32_t accuser) { records_[index].accuser = accuser; }
  bool has_old_rates() const { return has_old_rates_; }  // of members that are over, or reborn
  void forget_old_rates();

  size_t size() const { return records_.size(); }
  const Member& at(uint32_t index) const { return records_[index]; }
  const Member& self() const { return records_[0]; }
  bool live(uint32_t index) const { return !is_over(records_[index]); }
  size_t live_count() const { return live_; }  // alive or suspect, the node itself included
  std::optional<uint32_t> find(std::string_view node) const;
  std::optional<uint32_t> find(uint64_t id) const;
  const std::vector<uint32_t>& by_name() const { return by_name_; }  // indices

  const GraphSpec& spec() const { return spec_; }
  /// A node wants the run to stop: a node of the generation of this one, or of a later one.
  bool stopping() const { return stopping_ > 0; }
  /// The number of the requested mean. It changes with each request; 0: none was requested.
  uint64_t means_asked() const { return means_asked_; }
  uint64_t epoch() const;
  uint64_t digest() const;  // equal if and only if (but for 2^-64) all records and the spec are
  using RatePart = std::pair<uint32_t, uint32_t>;  // member and part
  const std::map<RatePart, RateFact>& rates() const { return rates_; }
  /// The rates that count: for an edge, the larger value of its two ends, but at most twice the
  /// smaller one; none if only one end has told a value. If this node's own measurement differs by
  /// more than kOwnWins, its own value counts. Otherwise all nodes use the same constants.
  std::vector<EdgeRate> edge_rates() const;

  /// The newest fact of each owner, by its id. The work of dead members still counts.
  const std::map<uint64_t, WorkFact>& work() const { return work_; }

  /// The ranks of the graph, rising: the live incarnation of each, and its node. If ranks of
  /// members overlap, one member gets them all, by the order of move_to; ranks that are gone are
  /// left out.
  struct Place {
    uint32_t rank = 0, incarnation = 0;
    uint32_t member = 0;
  };
  std::vector<Place> places() const;

  /// The first rank that the node itself has to take, if not the one it has: of live members whose
  /// ranks overlap the one in the graph keeps them, then the one of the lowest incarnation, then of
  /// the lowest name. The others take, in the same order, the lowest numbers that nobody has, alive
  /// or dead (the dead may return). All nodes that know the same compute the same for all.
  std::optional<uint32_t> move_to() const;
  /// The incarnation with which this node may serve ranks from `first_rank` on. It is above those
  /// of nodes that had any of these ranks and are gone, so the incarnations of a rank grow,
  /// whichever node serves it.
  uint32_t incarnation_with(uint32_t first_rank) const;

 private:
  std::vector<uint32_t> by_precedence() const;
  void count(const Member&, bool in);
  bool overlapped() const;

  std::vector<Member> records_;
  std::vector<uint32_t> by_name_;
  std::map<uint64_t, uint32_t> by_id_;
  GraphSpec spec_;
  std::map<RatePart, RateFact> rates_;
  bool has_old_rates_ = false;
  std::map<uint64_t, WorkFact> work_;
  size_t live_ = 0, stopping_ = 0;
  // Sums over the records.
  uint64_t counter_ = 0, members_hash_ = 0, records_hash_ = 0, means_asked_ = 0;
};

/// The contribution of a record to means_asked().
uint64_t means_asked_by(const Member&);

}  // namespace grapevine
