// MaliciousMember: what a member of a run may say that wishes the others ill. It speaks the real
// protocol and keeps to the codec's bounds, no more: each field of each message is drawn from what
// it has heard, from edge values, and at random.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/transport/memory_line.hpp"
#include "kernels/base/random.hpp"
#include "messages/control.hpp"

namespace grapevine::test {

class MaliciousMember {
 public:
  /// `name`: its own, as its links have it. `others`: names of members, to speak of. `sign_as`:
  /// what it signs with as a member of that name; unset, it signs nothing. `run`: of facts.
  using SignAs = std::function<Signing(const std::string& name)>;
  MaliciousMember(uint64_t seed, std::string name, std::vector<std::string> others,
                  SignAs sign_as = {}, uint64_t run = 1);

  /// Learns from an honest node's packet: the best lies are near the truth.
  void hear(const MembershipPacket&);
  void hear(const FrameHeader&);

  /// One that the codec accepts at both ends, of any kind there is: also those that have no place
  /// on a link that stands, and end it (but for a BulkToken).
  ControlMessage message();
  static bool is_of_the_links(const ControlMessage&);  // which whoever has the links answers
  MembershipPacket packet();
  Parcel parcel();  // valid, of at most 64 elements
  /// Of a line by which memory is lent: kinds that exist, of any lending near what it has heard.
  LineNote line_note();
  void hear(const LineNote&);
  /// About a communicator, near what it has heard of it.
  NcclTalk nccl_talk();
  void hear(const NcclTalk&);
  FrameHeader header();  // with or without a payload of at most 64 elements
  /// Numbers near those of models, some of which are not finite, huge or nearly nothing.
  void fill(const Vec& payload);
  Random& random() { return random_; }

 private:
  uint32_t word(uint32_t near);
  uint64_t long_word(uint64_t near);
  double real();
  std::string name();
  std::string text(size_t most);
  Member record();
  void sign(Member&);
  GraphSpec graph();
  RateFact rates();
  WorkFact work();
  void twist(Member&);
  Manifest manifest();
  Hello hello();
  ControlMessage of_the_links();
  uint64_t last_mean() const;
  bool one_in(uint32_t n) { return random_.below(n) == 0; }

  Random random_;
  std::string name_;
  std::vector<std::string> others_;
  SignAs sign_as_;
  uint64_t run_;
  std::map<std::string, Member> known_;
  MembershipPacket last_;
  std::vector<FrameHeader> frames_;
  LentSlot last_lent_;
  uint64_t last_edge_ = 0, last_exchange_ = 0;
};

/// Does what every member must do to stay one: it refutes statements about its own record, and
/// answers a ping.
void outlive(Member& own, const MembershipPacket& said, const Signing&, uint64_t run);
MembershipPacket ack_of(const MembershipPacket& ping);

}  // namespace grapevine::test
