#include "actors/cluster/mean_restarts.hpp"

#include <iterator>

#include "kernels/memory/hash.hpp"

namespace grapevine {

namespace {

uint64_t word_of(const MeanMember& m) {
  uint64_t hash = folded(kHashStart, uint64_t{m.incarnation} << 32 | m.ranks);
  hash = folded(hash, m.first_rank);
  for (const uint64_t name : m.unreachable)
    hash = folded(hash, name);
  return hash != 0 ? hash : 1;
}

}  // namespace

void MeanRestarts::open(double now, const std::vector<MeanMember>& members) {
  known_.clear();
  view(now, members);
  for (auto& [node, known] : known_)
    known.is_new = false;
  of_new_ = {};
}

bool MeanRestarts::Count::add(double now) {
  if (restarts == 0 || now >= counted_at + kOneRestart_s) {
    counted_at = now;
    ++restarts;
  }
  return restarts <= kMeanRestarts;
}

void MeanRestarts::change(double now, const std::string& node, Known& known, uint64_t word,
                          Changes& out) {
  known.word = word;
  Count& count = known.is_new ? of_new_ : known.count;
  const bool was_over = count.restarts > kMeanRestarts;
  const bool gives_time = count.add(now);
  out.give_time |= gives_time;
  if (!gives_time && !was_over && !known.is_new) out.restless.push_back(node);
}

MeanRestarts::Changes MeanRestarts::view(double now, const std::vector<MeanMember>& members) {
  Changes out;
  ++views_;
  for (const MeanMember& m : members) {
    if (m.left) continue;
    const auto [at, is_new] = known_.try_emplace(m.node);
    Known& known = at->second;
    known.is_new |= is_new;
    known.view = views_;
    if (const uint64_t word = word_of(m); word != known.word) change(now, m.node, known, word, out);
  }
  for (auto at = known_.begin(); at != known_.end();) {
    auto& [node, known] = *at;
    const bool goes = known.word != 0 && known.view != views_;
    if (goes) change(now, node, known, 0, out);
    at = goes && known.is_new ? known_.erase(at) : std::next(at);
  }
  return out;
}

}  // namespace grapevine
