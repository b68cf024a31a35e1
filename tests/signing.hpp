// Keys of the tests' members, which come from their names, and signatures that are made and judged
// as everywhere; what has held once is known.
#pragma once
#include <memory>
#include <string>
#include <unordered_set>

#include "actors/transport/node_key.hpp"
#include "kernels/memory/hash.hpp"
#include "messages/facts.hpp"

namespace grapevine::test {

inline NodeKey key_of(const std::string& name, uint64_t life = 0) {
  Secret secret{};
  uint64_t h = folded(mixed(fnv1a(name)), life);
  for (size_t k = 0; k < secret.size(); ++k, h = folded(h, k))
    secret[k] = static_cast<uint8_t>(h);
  return NodeKey(secret);
}

/// Of a whole test program: a thousand nodes check one signature once.
class Checked {
 public:
  bool holds(const PublicKey& key, std::span<const std::byte> bytes, const Signature& made) {
    std::string fact(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    fact.append(key.begin(), key.end()).append(made.begin(), made.end());
    if (held_.count(fact) > 0) return true;
    if (!is_signed(key, bytes, made)) return false;
    if (held_.size() >= 200'000) held_.clear();
    held_.insert(std::move(fact));
    return true;
  }
  static Checked& all() {
    static Checked checked;
    return checked;
  }

 private:
  std::unordered_set<std::string> held_;
};

inline Signing signing_of(const NodeKey& key) {
  Signing signing = key.signing();
  signing.holds = [](const PublicKey& of, std::span<const std::byte> bytes, const Signature& made) {
    return Checked::all().holds(of, bytes, made);
  };
  return signing;
}

/// As its owner says it: with the key of its name, unless it has another, and a signature.
inline Member signed_by(const NodeKey& key, Member m, uint64_t run = 1) {
  m.key = key.public_key();
  m.signature = key.sign(fact_bytes(run, m));
  return m;
}
inline Member signed_by_itself(Member m, uint64_t run = 1) {
  return signed_by(key_of(m.node), std::move(m), run);
}

inline GraphSpec signed_by(const NodeKey& key, GraphSpec graph, uint64_t run = 1) {
  graph.key = key.public_key();
  graph.signature = key.sign(fact_bytes(run, graph));
  return graph;
}
inline GraphSpec signed_by_itself(GraphSpec graph, uint64_t run = 1) {
  return signed_by(key_of(graph.node), std::move(graph), run);
}

}  // namespace grapevine::test
