#include "actors/cluster/mean_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "actors/cluster/mean_sums.hpp"
#include "actors/cluster/state_pieces.hpp"
#include "kernels/memory/hash.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

namespace {

using Way = MeanPiece::Way;

constexpr double kNotYet = std::numeric_limits<double>::infinity();
constexpr double kSnapshot_s = 5;  // a snapshot waits this long for other nodes
constexpr double kUnlinked_s = 2;  // then a neighbour counts as cut off
constexpr double kFirstMeanLapse_s = 2, kLeastMeanLapse_s = 2 * kAgain_s, kLongestMeanLapse_s = 8;
constexpr double kTries = 4;  // least number of requests for a piece within the patience
// After so many refused pieces the mean continues without the neighbour.
constexpr int kBadMeanPieces = 3;
constexpr size_t kReasons = 32;  // reasons that are kept

void divide_into(ConstVec sum, double ranks, Vec mean) {
  const auto* from = sum.as<double>();
  for (size_t k = 0; k < sum.size; ++k) {
    if (mean.dtype == DType::f32)
      mean.as<float>()[k] = static_cast<float>(from[k] / ranks);
    else
      mean.as<double>()[k] = from[k] / ranks;
  }
}

}  // namespace

uint32_t MeanShape::pieces() const {
  uint64_t sum = 0;
  for (const Vector& v : vectors)
    sum += (v.count + kMeanPieceElements - 1) / kMeanPieceElements;
  return static_cast<uint32_t>(sum);
}

MeanShape::Place MeanShape::place_of(uint32_t piece) const {
  GV_CHECK(piece < pieces());
  uint64_t left = piece;
  uint32_t vector = 0;
  for (;; ++vector) {
    const uint64_t here = (vectors[vector].count + kMeanPieceElements - 1) / kMeanPieceElements;
    if (left < here) break;
    left -= here;
  }
  const uint64_t offset = left * kMeanPieceElements;
  return {vector, offset, std::min(kMeanPieceElements, vectors[vector].count - offset)};
}

MeanExchange::MeanExchange(std::string self, MeanShape shape, double patience_s)
    : self_(std::move(self)), shape_(std::move(shape)), patience_s_(patience_s) {
  GV_CHECK(shape_.pieces() != 0u);
}

// --- events

void MeanExchange::want(double now, uint64_t serial, MeanEffects& out) {
  if (serial != serial_) {
    serial_ = serial;
    if (!ending_) open(now, out);
  }
  finish(now, out);
}

void MeanExchange::end(double now, std::vector<std::string> expected, MeanEffects& out) {
  if (!ending_) {
    ending_ = true;
    began_with_.insert(expected.begin(), expected.end());
    for (const MeanMember& m : members_)
      if (!m.left && expected.empty()) began_with_.insert(m.node);
    open(now, out);
  }
  finish(now, out);
}

void MeanExchange::open(double now, MeanEffects& out) {
  left_out_.clear();
  reported_ = false;
  restarts_.open(now, members_);
  begin(now, mean_key(ending_ ? 0 : serial_, members_), true, out);
}

/// `gives_time`: the mean waits anew. Otherwise it has to come farther than before.
void MeanExchange::begin(double now, const MeanKey& key, bool gives_time, MeanEffects& out) {
  stage_ = Stage::summing;
  number_ = key.number();
  if (gives_time) {
    progress_at_ = now;
    most_steps_ = 0;
    heard_.clear();
  }
  sum_.reset();
  result_.reset();
  made_ = 0;
  neighbours_.clear();
  const MeanTree tree = mean_tree(key, shape_.pieces());
  const auto self = std::find_if(key.members.begin(), key.members.end(),
                                 [this](const MeanMember& m) { return m.node == self_; });
  const auto place = static_cast<int>(self - key.members.begin());
  is_in_ = self != key.members.end() && tree.places[static_cast<size_t>(place)].in;
  is_root_ = is_in_ && tree.root == place;
  nodes_ = static_cast<int>(std::ranges::count_if(tree.places, [](const auto& p) { return p.in; }));
  if (!is_in_) return;
  const uint32_t all = tree.places[static_cast<size_t>(tree.root)].ranks_at_most;
  for (const int other : tree.neighbours(place)) {
    Neighbour n;
    n.child = tree.places[static_cast<size_t>(place)].parent != other;
    n.ranks_at_most = n.child ? tree.places[static_cast<size_t>(other)].ranks_at_most : all;
    n.unlinked_since = now;
    n.in.ranks.assign(shape_.vectors.size(), -1);
    const std::string& name = key.members[static_cast<size_t>(other)].node;
    const auto early = early_.find({name, n.child ? Way::down : Way::up});
    if (early != early_.end() && early->second.mean == number_) grant(now, n, early->second);
    neighbours_.emplace(name, n);
  }
  out.sample = number_;
}

void MeanExchange::view(double now, std::vector<MeanMember> members, MeanEffects& out) {
  members_ = std::move(members);
  std::sort(members_.begin(), members_.end(),
            [](const MeanMember& a, const MeanMember& b) { return a.node < b.node; });
  if (stage_ != Stage::idle) {
    const MeanRestarts::Changes changes = restarts_.view(now, members_);
    for (const std::string& node : changes.restless)
      if (node != self_) do_without(node, "it changed what it says of itself too often", out);
    const MeanKey key = mean_key(ending_ ? 0 : serial_, members_);
    if (!agreed() && key.number() != number_) begin(now, key, changes.give_time, out);
    for (const MeanMember& m : members_)
      if (m.told_number == number_ && heard_.insert(m.node).second) progress_at_ = now;
  }
  finish(now, out);
}

void MeanExchange::linked(double now, const std::string& node, bool up, MeanEffects& out) {
  up ? void(links_.insert(node)) : void(links_.erase(node));
  if (!up)
    for (const Way way : {Way::up, Way::down})
      early_.erase({node, way});
  if (const auto found = neighbours_.find(node); found != neighbours_.end()) {
    Neighbour& n = found->second;
    n.unlinked_since = now;
    if (!up) n.in.due_at = kNotYet;
    if (up && gives(n)) ask(now, node, n, true, out);
  }
  finish(now, out);
}

void MeanExchange::own(double now, uint64_t number, MeanSum sum, MeanEffects& out) {
  if (number == number_ && stage_ == Stage::summing && is_in_) {
    auto result = std::make_shared<Mean>();
    if (sum.vectors.empty())
      for (const MeanShape::Vector& v : shape_.vectors)
        sum.vectors.emplace_back(v.count, DType::f64);
    sum.ranks_in.resize(shape_.vectors.size());
    result->ranks_in.resize(shape_.vectors.size());
    GV_CHECK(sum.vectors.size() == shape_.vectors.size());
    for (size_t k = 0; k < shape_.vectors.size(); ++k) {
      const MeanShape::Vector& v = shape_.vectors[k];
      GV_CHECK((sum.vectors[k].size() == v.count && sum.vectors[k].dtype() == DType::f64));
      result->vectors.emplace_back(v.count, v.dtype);
    }
    result->number = number_;
    result->nodes = nodes_;
    result->hash = kHashStart;
    sum_ = std::make_shared<MeanSum>(std::move(sum));
    result_ = std::move(result);
    stage_ = Stage::trading;
    advance(now);
  }
  finish(now, out);
}

void MeanExchange::asked(double now, const std::string& from, const MeanAsk& ask,
                         MeanEffects& out) {
  const auto found = neighbours_.find(from);
  if (ask.from > ask.until || ask.until > shape_.pieces()) {
    refuse(from, "a request for pieces that do not exist", out);
  } else if (ask.mean != number_) {
    if (links_.count(from) > 0) early_[{from, ask.way}] = ask;
  } else if (found == neighbours_.end() || found->second.child != (ask.way == Way::down)) {
    refuse(from, "a request in the wrong direction of the tree", out);
  } else {
    grant(now, found->second, ask);
  }
  finish(now, out);
}

void MeanExchange::timer(double now, MeanEffects& out) {
  if (stage_ != Stage::idle) lapse(now, out);
  finish(now, out);
}

void MeanExchange::lapse(double now, MeanEffects& out) {
  for (auto& [name, n] : neighbours_) {
    if (n.in.due_at <= now && gives(n)) {
      ++n.in.lapses;
      ask(now, name, n, true, out);
    }
    if (needs(name, n) && now >= n.unlinked_since + kUnlinked_s) {
      n.cut = true;
      out.cut.push_back(name);
    }
  }
  if (now < progress_at_ + waits_s()) return;
  if (!reported_) report(awaited(), out);
  if (!ending_) stage_ = Stage::idle;
}

// --- the end of each event

// An event divides one piece and packs one, because these take time. The other pieces follow at
// once.
void MeanExchange::finish(double now, MeanEffects& out) {
  bool all_sent = true;
  if (sum_) {
    divide();
    if (stage_ == Stage::trading && made_ == shape_.pieces()) {
      stage_ = Stage::whole;
      whole_ = result_;
      out.told = {number_, result_->hash};
      advance(now);
    }
    ask_more(now, out);
    all_sent = pour(out);
  }
  if (!reported_ && stage_ == Stage::whole && (!ending_ || agreed()))
    report(ending_ ? awaited() : std::vector<std::string>(), out);
  if (!ending_ && agreed()) {
    stage_ = Stage::idle;
    sum_.reset();
  }
  out.timer_at = kNotYet;
  if (stage_ == Stage::idle || (ending_ && reported_)) return;
  out.timer_at = progress_at_ + waits_s();
  if (sum_ && (!all_sent || (is_root_ && made_ < summed()))) out.timer_at = now;
  for (const auto& [name, n] : neighbours_) {
    if (gives(n)) out.timer_at = std::min(out.timer_at, n.in.due_at);
    if (needs(name, n))
      out.timer_at = std::min(out.timer_at, std::max(now, n.unlinked_since + kUnlinked_s));
  }
}

/// All live members report the mean that is here, or one has left that knew all these reports.
bool MeanExchange::agreed() const {
  if (stage_ != Stage::whole) return false;
  bool all = true;
  for (const MeanMember& m : members_) {
    const bool same = m.told_number == number_ && m.told_hash == whole_->hash;
    if (m.left && same) return true;
    all &= m.left || same || m.node == self_ || left_out_.contains(m.node);
  }
  return all;
}

void MeanExchange::report(std::vector<std::string> missing, MeanEffects& out) {
  reported_ = true;
  const bool here = stage_ == Stage::whole && whole_->ranks > 0;
  out.result = MeanEffects::Result{here ? whole_ : nullptr, std::move(missing)};
}

std::vector<std::string> MeanExchange::awaited() const {
  std::set<std::string> names;
  const auto has_it = [this](const MeanMember& m) {
    return stage_ == Stage::whole && m.told_number == number_ && m.told_hash == whole_->hash;
  };
  const bool decided = agreed();
  const bool from_below =
      std::any_of(neighbours_.begin(), neighbours_.end(), [this](const auto& n) {
        return n.second.child && gives(n.second);  // then nothing can come from the parent
      });
  std::set<std::string> gone = began_with_;  // members that died since the end began
  for (const MeanMember& m : members_) {
    gone.erase(m.node);
    if (m.node == self_ || m.left || has_it(m) || decided) continue;
    const auto n = neighbours_.find(m.node);
    const bool is_due = n != neighbours_.end() && gives(n->second) && n->second.child == from_below;
    if (stage_ == Stage::whole || !is_in_ || is_due) names.insert(m.node);
  }
  if (ending_) names.insert(gone.begin(), gone.end());
  for (const std::string& node : left_out_)
    names.erase(node);
  return {names.begin(), names.end()};
}

std::vector<std::string> MeanExchange::neighbours() const {
  std::vector<std::string> names;
  if (stage_ == Stage::idle) return names;
  for (const auto& [name, n] : neighbours_)
    names.push_back(name);
  return names;
}

// --- pieces

bool MeanExchange::gives(const Neighbour& n) const {
  return sum_ && n.in.have < shape_.pieces() && (n.child || stage_ == Stage::trading);
}

bool MeanExchange::needs(const std::string& node, const Neighbour& n) const {
  return !n.cut && links_.count(node) == 0 && (gives(n) || n.out.next < shape_.pieces());
}

uint32_t MeanExchange::summed() const {
  uint32_t least = sum_ ? shape_.pieces() : 0;
  for (const auto& [name, n] : neighbours_)
    if (n.child) least = std::min(least, n.in.have);
  return least;
}

int64_t MeanExchange::ranks_in_sum(size_t vector) const {
  int64_t ranks = sum_->ranks_in[vector];
  for (const auto& [name, n] : neighbours_)
    if (n.child) ranks += n.in.ranks[vector];
  return ranks;
}

void MeanExchange::grant(double now, Neighbour& n, const MeanAsk& ask) const {
  const uint32_t until = std::min({ask.until, ask.from + kMeanWindow, shape_.pieces()});
  const bool moves_on = ask.from > n.out.again_from || now >= n.out.again_at + kAgain_s;
  const bool again = ask.again && moves_on;
  if (again) {
    n.out.again_from = std::max(n.out.again_from, ask.from);
    n.out.again_at = now;
  }
  n.out.next = again ? ask.from : std::max(n.out.next, ask.from);
  n.out.until = again ? until : std::max(n.out.until, until);
}

double MeanExchange::waits_s() const {
  return ending_ ? patience_s_ : std::min(patience_s_, kSnapshot_s);
}

double MeanExchange::lapse_s(const Source& s) const {
  const double usual = s.gap_s > 0 ? 4 * kMeanWindow * s.gap_s : kFirstMeanLapse_s;
  const double longest = std::clamp(waits_s() / kTries, kLeastMeanLapse_s, kLongestMeanLapse_s);
  return std::clamp(usual * (1 << std::min(s.lapses, 3)), kLeastMeanLapse_s, longest);
}

void MeanExchange::ask(double now, const std::string& to, Neighbour& n, bool again,
                       MeanEffects& out) {
  const uint32_t until = std::min(n.in.have + kMeanWindow, shape_.pieces());
  n.in.asked = until;
  n.in.due_at = links_.count(to) > 0 ? now + lapse_s(n.in) : kNotYet;
  out.asks.push_back({to, {n.child ? Way::up : Way::down, again, number_, n.in.have, until}});
}

void MeanExchange::ask_more(double now, MeanEffects& out) {
  for (auto& [name, n] : neighbours_) {
    if (!gives(n) || n.in.asked >= shape_.pieces() || links_.count(name) == 0) continue;
    if (n.in.asked == 0 || n.in.asked - n.in.have <= kMeanWindow / 2) ask(now, name, n, false, out);
  }
}

MeanEffects::Piece MeanExchange::piece_for(const std::string& to, const Neighbour& n) const {
  const MeanShape::Place at = shape_.place_of(n.out.next);
  const DType dtype = shape_.vectors[at.vector].dtype;
  const auto ranks =
      static_cast<uint32_t>(n.child ? result_->ranks_in[at.vector] : ranks_in_sum(at.vector));
  MeanEffects::Piece piece;
  piece.to = to;
  piece.what = {n.child ? Way::down : Way::up, number_, at.vector, at.offset, ranks};
  const Buffer& from = n.child ? result_->vectors[at.vector] : sum_->vectors[at.vector];
  piece.payload = from.vec().part(at.offset, at.count);
  if (n.child) {
    piece.keeps = result_;
  } else if (dtype == DType::f64) {
    piece.keeps = sum_;
  } else {
    const PackedShape shape = packed_shape(at.count, dtype);
    auto packed = std::make_shared<Buffer>(shape.count, shape.dtype);
    pack(piece.payload, ranks, *packed);
    piece.payload = packed->vec();
    piece.keeps = std::move(packed);
  }
  return piece;
}

bool MeanExchange::pour(MeanEffects& out) {
  const uint32_t sums = summed();
  bool all_sent = true;
  for (auto& [name, n] : neighbours_) {
    const uint32_t until = std::min(n.out.until, n.child ? made_ : sums);
    const uint32_t now_until = n.child ? until : std::min(until, n.out.next + 1);
    for (; n.out.next < now_until; ++n.out.next)
      out.pieces.push_back(piece_for(name, n));
    all_sent &= n.out.next >= until;
  }
  return all_sent;
}

void MeanExchange::divide() {
  if (!is_root_ || made_ >= summed()) return;
  const MeanShape::Place at = shape_.place_of(made_++);
  const int ranks = result_->ranks_in[at.vector] = static_cast<int>(ranks_in_sum(at.vector));
  result_->ranks = result_->ranks_in.front();
  const Vec mean = result_->vectors[at.vector].vec().part(at.offset, at.count);
  const ConstVec sum = std::as_const(sum_->vectors[at.vector]).vec().part(at.offset, at.count);
  divide_into(sum, std::max(1, ranks), mean);
  const uint64_t hash = piece_hash(mean);
  result_->hash = fnv1a(std::as_bytes(std::span(&hash, 1)), result_->hash);
}

/// `next`: the place of the expected piece. The size of other pieces is not checked.
std::string MeanExchange::complaint_about(const Neighbour& n, const MeanPiece& p, ConstVec payload,
                                          const MeanShape::Place& next) const {
  if (n.child != (p.way == Way::up)) return "a piece in the wrong direction of the tree";
  const DType mean = shape_.vectors[p.vector].dtype;
  const PackedShape shape =
      n.child ? packed_shape(next.count, mean) : PackedShape{mean, next.count};
  if (payload.dtype != shape.dtype) return "a piece of another type";
  if (p.ranks > n.ranks_at_most) return "a piece of more ranks than there are";
  const int64_t known = n.in.ranks[p.vector];
  if (known >= 0 && known != int64_t{p.ranks}) return "pieces with different numbers of ranks";
  if (p.vector != next.vector || p.offset != next.offset) return "";
  if (payload.size != shape.count) return "a piece of another size";
  const bool finite = n.child ? is_finite(payload, next.count) : all_finite({}, payload);
  return finite ? "" : "a piece that is not finite";
}

void MeanExchange::refuse(const std::string& from, const std::string& why, MeanEffects& out) {
  const bool room = refused_.size() < kReasons || refused_.count(why) > 0;
  ++refused_[room ? why : "other"];
  const auto found = neighbours_.find(from);
  if (found == neighbours_.end() || found->second.cut || ++found->second.in.bad < kBadMeanPieces)
    return;
  do_without(from, "it sent " + why, out);
}

void MeanExchange::do_without(const std::string& node, const std::string& why, MeanEffects& out) {
  if (const auto found = neighbours_.find(node); found != neighbours_.end())
    found->second.cut = true;
  left_out_.insert(node);
  out.left_out[node] = why + ", and the mean continues without it";
  out.cut.push_back(node);
}

/// The squared distance between a piece of the first vector, as a mean of its ranks, and the mean
/// of the ranks in the sum here so far. 0 if one of the two has no ranks.
double MeanExchange::square_from_here(const Neighbour& n, const MeanPiece& p,
                                      ConstVec payload) const {
  int64_t ranks = sum_->ranks_in[p.vector];
  for (const auto& [name, other] : neighbours_)
    if (other.child && other.in.have > n.in.have) ranks += other.in.ranks[p.vector];
  if (ranks == 0 || p.ranks == 0) return 0;
  const MeanShape::Place at = shape_.place_of(n.in.have);
  Buffer theirs(at.count, DType::f64), difference(at.count, DType::f64);
  if (n.child)
    add_packed(payload, p.ranks, theirs);
  else
    accumulate({}, payload, theirs);
  const ConstVec here = std::as_const(sum_->vectors[at.vector]).vec().part(at.offset, at.count);
  scale({}, 1 / static_cast<double>(ranks), here, difference);
  axpy({}, n.child ? -1.0 / p.ranks : -1.0, theirs, difference);
  return dot({}, difference, difference);
}

void MeanExchange::piece(double now, const std::string& from, const MeanPiece& p, ConstVec payload,
                         MeanEffects& out) {
  const auto found = neighbours_.find(from);
  if (p.mean == number_ && sum_) {
    if (found == neighbours_.end()) {
      refuse(from, "a piece from a node that is no neighbour in the tree", out);
    } else if (p.vector >= shape_.vectors.size()) {
      refuse(from, "a piece of a vector that does not exist", out);
    } else if (Neighbour& n = found->second; gives(n)) {
      const MeanShape::Place next = shape_.place_of(n.in.have);
      const bool in_turn = p.vector == next.vector && p.offset == next.offset;
      const std::string why = complaint_about(n, p, payload, next);
      if (!why.empty()) {
        refuse(from, why, out);
      } else if (in_turn) {
        if (p.vector == 0) n.in.squares += square_from_here(n, p, payload);
        if (std::sqrt(n.in.squares) <= sum_->reach)
          take_in(now, n, p, payload);
        else if (!n.cut)
          do_without(from, "it sent values far from those of the ranks here", out);
      } else if (std::pair(p.vector, p.offset) > std::pair(next.vector, next.offset) &&
                 std::exchange(n.in.skipped, n.in.have) != n.in.have) {
        ask(now, from, n, true, out);  // pieces come in order, so one was lost
      }
    }
  }
  finish(now, out);
}

void MeanExchange::take_in(double now, Neighbour& n, const MeanPiece& p, ConstVec payload) {
  const MeanShape::Place at = shape_.place_of(n.in.have);
  if (n.child) {
    add_packed(payload, p.ranks, sum_->vectors[at.vector].vec().part(at.offset, at.count));
  } else {
    const Vec mean = result_->vectors[at.vector].vec().part(at.offset, at.count);
    std::memcpy(mean.data, payload.data, payload.bytes());
    const uint64_t hash = piece_hash(mean);
    result_->hash = fnv1a(std::as_bytes(std::span(&hash, 1)), result_->hash);
    result_->ranks_in[at.vector] = static_cast<int>(p.ranks);
    result_->ranks = result_->ranks_in.front();
    ++made_;
  }
  Source& s = n.in;
  ++s.have;
  s.ranks[at.vector] = p.ranks;
  const double gap_s = s.came_at < 0 || s.lapses > 0 ? s.gap_s : now - s.came_at;
  s.gap_s = s.gap_s == 0 ? gap_s : s.gap_s + (gap_s - s.gap_s) / 8;
  s.came_at = now;
  s.lapses = 0;
  s.due_at = now + lapse_s(s);
  advance(now);
}

void MeanExchange::advance(double now) {
  uint64_t steps = 1 + (stage_ == Stage::whole ? 1 : 0);
  for (const auto& [name, n] : neighbours_)
    steps += n.in.have;
  if (steps <= most_steps_) return;
  most_steps_ = steps;
  progress_at_ = now;
}

}  // namespace grapevine
