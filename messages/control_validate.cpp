#include <fmt/core.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "messages/codec.hpp"
#include "messages/control_codec.hpp"
#include "messages/rate_bounds.hpp"

namespace grapevine {
namespace {

/// Keeps the first refusal.
class Validator {
 public:
  /// `several`: more than one line, so newlines and tabs are allowed, too.
  Validator& text(const char* what, std::string_view text, size_t most, bool several = false) {
    if (text.size() > most)
      refuse(fmt::format("{} of {} bytes, accepted: at most {}", what, text.size(), most));
    for (size_t at = 0; at < text.size(); ++at) {
      const auto c = static_cast<unsigned char>(text[at]);
      if ((c >= 0x20 && c < 0x7f) || (several && (c == '\n' || c == '\t'))) continue;
      refuse(fmt::format("{} with byte {} at {}, accepted: printable ASCII", what, c, at));
      break;
    }
    return *this;
  }
  Validator& name(const char* what, std::string_view name) {
    if (name.empty()) refuse(std::string(what) + " of 0 bytes, accepted: at least 1");
    return text(what, name, kNameBytes);
  }
  Validator& list(const char* what, size_t elements, size_t most) {
    if (elements > most)
      refuse(fmt::format("{} of {} elements, accepted: at most {}", what, elements, most));
    return *this;
  }
  Validator& holds(bool holds, const char* otherwise) {
    if (!holds) refuse(otherwise);
    return *this;
  }
  Status verdict() const {
    if (why_.empty()) return Done{};
    return world_error("message refused: " + why_);
  }

 private:
  void refuse(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }
  std::string why_;
};

void judge(Validator& j, const Hello& m) {
  j.text("run", m.run, kNameBytes).text("jobIs", m.job_is, kLineBytes).name("node", m.node);
  j.text("address", m.address, kAddressBytes);
  j.text("settings", m.settings, kSettingsBytes, true);
  j.text("defaults", m.defaults, kSettingsBytes, true);
}
void judge(Validator& j, const Refusal& m) { j.text("refusal", m.reason, kLineBytes); }
void judge(Validator&, const Bye&) {}
void judge(Validator&, const Agree&) {}
void judge(Validator& j, const BulkToken& m) { j.text("sameHost", m.same_host, kNameBytes); }
void judge_numbers(Validator& j, const FrameHeader& h) {
  j.holds(std::isfinite(h.alpha_tilde) && h.alpha_tilde >= 0,
          "alpha_tilde, accepted: finite and at least 0");
  j.holds(h.bound >= 0, "bound, accepted: at least 0");
  j.holds(h.allowance >= 0, "allowance, accepted: at least 0");
}
void judge(Validator& j, const FrameHeader& h) {
  j.holds(h.count == 0, "frame with a payload, accepted: none on a control link");
  judge_numbers(j, h);
}
void judge(Validator& j, const MembershipPacket& m) {
  j.text("target", m.target, kNameBytes).text("graphNode", m.graph.node, kNameBytes);
  j.text("topology", m.graph.topology, kSpecBytes);
  j.list("news", m.news.size(), kMaxNews).list("rateFacts", m.rates.size(), kMaxRateFacts);
  for (const Member& member : m.news) {
    j.name("node", member.node).text("address", member.address, kAddressBytes);
    j.holds(member.first_rank <= ~uint32_t{0} - member.ranks, "ranks beyond 32 bits");
    j.list("gone", member.gone.size(), kMaxGone);
    j.list("unreachable", member.unreachable.size(), kMaxUnreachable);
    for (const RankGone& gone : member.gone)
      j.holds(gone.incarnation <= kIncarnationsAtMost, "gone in an incarnation above the last");
  }
  for (const RateFact& fact : m.rates) {
    j.list("rates", fact.rates.size(), kMaxRates);
    for (const EdgeRate& rate : fact.rates)
      j.holds(rate.per_second >= kLeastRate && rate.per_second <= kMostRate,
              "perSecond, accepted: 1e-9 to 1e9");
  }
  j.list("workFacts", m.work.size(), kMaxWorkFacts);
  for (const WorkFact& fact : m.work) {
    j.holds(fact.taken <= kMaxCount, "work, accepted: taken up to 2^53");
    j.holds(fact.per_second >= 0 && fact.per_second <= kMostRate,
            "perSecond of work, accepted: 0 to 1e9");
    j.holds(fact.counted_s >= 0 && fact.counted_s <= kMaxClock_s,
            "countedAt of work, accepted: 0 to 1e9");
  }
}
void judge(Validator& j, const FetchState& m) { j.list("pieces", m.pieces.size(), kMaxPieces); }
void judge(Validator& j, const Manifest& m) {
  j.text("refused", m.refused, kLineBytes).list("hashes", m.hashes.size(), kMaxPieces);
  j.list("numbers", m.numbers.size(), kMaxNumbers);
  for (const uint64_t number : m.numbers)  // counts of steps: a double would round larger ones
    j.holds(number <= kMaxCount, "numbers, accepted: up to 2^53");
  j.holds(std::isfinite(m.usual_step) && m.usual_step >= 0,
          "usualStep, accepted: finite and at least 0");
}
void judge(Validator& j, const ConsoleRequest& m) {
  j.text("argument", m.argument, kTextBytes, true);
}
void judge(Validator& j, const ConsoleReply& m) {
  j.text("text", m.text, kTextBytes, true)
      .list("bytes", m.text.size() + m.bytes.size(), kTextBytes);
}
void judge(Validator& j, const MeanAsk& m) {
  j.holds(m.from <= m.until, "pieces that end before they begin");
}

void judge_payload(Validator& j, const FrameHeader& h) {
  j.holds(carries_payload(h.kind) && h.count > 0 && h.count <= kMaxPayloadBytes / size_of(h.dtype),
          "header of an exchange, accepted: one with a payload");
  judge_numbers(j, h);
}
void judge_number(Validator& j, uint64_t number) {
  j.holds(number >= 1 && number <= kMaxCount, "number of an exchange, accepted: 1 to 2^53");
}
void judge(Validator&, const NcclConnect&) {}
void judge(Validator&, const NcclEnd&) {}
void judge(Validator& j, const NcclRequest& m) {
  judge_number(j, m.number);
  judge_payload(j, m.header);
}
void judge(Validator& j, const NcclGrant& m) {
  judge_number(j, m.number);
  if (m.header) judge_payload(j, *m.header);
}
void judge(Validator& j, const NcclDecline& m) { judge_number(j, m.number); }
void judge(Validator& j, const NcclTalk& m) {
  std::visit([&](const auto& what) { judge(j, what); }, m.what);
}

}  // namespace

Status validate(const ControlMessage& m) {
  Validator j;
  std::visit([&](const auto& value) { judge(j, value); }, m);
  return j.verdict();
}

const char* name_of(const ControlMessage& m) {
  static constexpr std::array<const char*, std::variant_size_v<ControlMessage>> kNames{
      "hello",         "refusal",    "bye",      "agree",    "bulk token",
      "frame",         "membership", "fetch",    "manifest", "console request",
      "console reply", "mean ask",   "nccl talk"};
  return kNames[m.index()];
}

}  // namespace grapevine
