#include "messages/facts.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include "kernels/memory/hash.hpp"

namespace grapevine {
namespace {

enum class Kind : uint8_t { record = 1, graph, rates, link, work };

class Writer {
 public:
  Writer(Kind kind, uint64_t run, const PublicKey& owner) {
    for (const char c : std::string_view("grapevine 5"))
      bytes_.push_back(static_cast<std::byte>(c));
    number(static_cast<uint8_t>(kind)).number(run).raw(owner);
  }
  template <class Number>
  Writer& number(Number value) {
    for (size_t k = 0; k < sizeof value; ++k)
      bytes_.push_back(static_cast<std::byte>(value >> 8 * k));
    return *this;
  }
  Writer& number(bool value) { return number(static_cast<uint8_t>(value)); }
  Writer& number(double value) { return number(std::bit_cast<uint64_t>(value)); }
  Writer& text(std::string_view text) {
    number(static_cast<uint32_t>(text.size()));
    for (const char c : text)
      bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  template <size_t N>
  Writer& raw(const std::array<uint8_t, N>& raw) {
    for (const uint8_t byte : raw)
      bytes_.push_back(static_cast<std::byte>(byte));
    return *this;
  }
  FactBytes take() { return std::move(bytes_); }

 private:
  FactBytes bytes_;
};

}  // namespace

uint64_t run_of(const Hello& hello) { return std::max<uint64_t>(fnv1a(hello.run, hello.job), 1); }

// For a new field, decide here whether its owner signs it.
FactBytes fact_bytes(uint64_t run, const Member& m) {
  const auto& [node, incarnation, refutations, state, address, first_rank, ranks, ready, finished,
               accuser, key, gone, unreachable, mean, last_word, generation, stops, means_asked,
               life, signature] = m;
  Writer out(Kind::record, run, key);
  out.number(incarnation).number(refutations).text(node).text(address);
  out.number(first_rank).number(ranks).number(ready).number(finished);
  out.number(static_cast<uint8_t>(last_word)).number(generation).number(stops).number(means_asked);
  out.number(life);
  out.number(mean.number).number(mean.hash);
  out.number(static_cast<uint32_t>(gone.size()));
  for (const RankGone& g : gone)
    out.number(g.rank).number(g.incarnation).number(g.lives);
  out.number(static_cast<uint32_t>(unreachable.size()));
  for (const uint64_t name : unreachable)
    out.number(name);
  return out.take();
}

FactBytes fact_bytes(uint64_t run, const GraphSpec& spec) {
  Writer out(Kind::graph, run, spec.key);
  out.number(uint32_t{0}).number(spec.version).text(spec.node).text(spec.topology);
  return out.take();
}

FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const RateFact& fact) {
  Writer out(Kind::rates, run, owner);
  out.number(fact.incarnation).number(fact.number).number(fact.part);
  out.number(static_cast<uint32_t>(fact.rates.size()));
  for (const EdgeRate& rate : fact.rates)
    out.number(rate.i).number(rate.j).number(rate.per_second);
  return out.take();
}

FactBytes fact_bytes(uint64_t run, const PublicKey& owner, const WorkFact& fact) {
  Writer out(Kind::work, run, owner);
  out.number(uint32_t{0}).number(fact.number);
  out.number(fact.taken).number(fact.per_second).number(fact.counted_s);
  return out.take();
}

FactBytes link_bytes(const Hello& sender, const Hello& receiver) {
  Writer out(Kind::link, sender.job, sender.key);
  out.number(sender.incarnation).text(sender.run).text(sender.node).raw(sender.challenge);
  out.raw(receiver.key).text(receiver.node).raw(receiver.challenge);
  return out.take();
}

}  // namespace grapevine
