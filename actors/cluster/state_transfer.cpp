#include "actors/cluster/state_transfer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/base/random.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

namespace {

constexpr size_t kTransfersAtMost = 2;
constexpr double kTransferHeld_s = 30;
constexpr double kTransferIdle_s = 2;  // without a new piece; then another new node may replace it
constexpr double kWaits_s = 30;        // a node that was refused counts as waiting for so long
constexpr size_t kPiecesAtOnce = 16;   // per request
constexpr size_t kWindow = 4;          // pieces under way
constexpr int kLapses = 3, kBad = 3;   // then the next source is asked
constexpr size_t kTurns = 5;           // requests to each source
constexpr double kRest_s = 0.5;        // after all sources; then longer
constexpr double kFirstLapse_s = 3, kLongestLapse_s = 10;
constexpr uint32_t kCompared = 4;                // pieces of the other source
constexpr uint64_t kOthers = uint64_t{1} << 32;  // the first number of a transfer for comparison
constexpr double kManifest_s = 5, kHashedPerSecond = 2e8;  // bytes that a slow machine hashes
constexpr double kNever_s = std::numeric_limits<double>::infinity();

}  // namespace

// --- the source

StateSource::Transfer* StateSource::find(const std::string& node, uint64_t transfer) {
  for (Transfer& d : transfers_) {
    if (d.node == node && d.transfer == transfer) return &d;
  }
  return nullptr;
}

void StateSource::finish(SourceEffects& out) const {
  out.timer_at = kNever_s;
  for (const Transfer& d : transfers_)
    out.timer_at = std::min(out.timer_at, d.used_at + kTransferHeld_s);
}

// REQUIRES: d.snapshot
void StateSource::give(double now, Transfer& d, const FetchState& fetch, SourceEffects& out) {
  d.used_at = now;
  if (fetch.pieces.empty() && d.repeats.may(now)) out.replies.push_back({d.node, d.manifest});
  const SnapshotShape shape = shape_of(*d.snapshot);
  d.sent.resize(piece_count(shape));
  for (size_t i = 0; i < std::min(fetch.pieces.size(), kPiecesAtOnce); ++i) {
    const uint32_t piece = fetch.pieces[i];
    if (piece >= d.sent.size() || (d.sent[piece] && !d.repeats.may(now))) continue;
    if (!d.sent[piece]) d.progress_at = now;
    d.sent[piece] = true;
    const PiecePlace at = place_of(shape, piece);
    out.pieces.push_back({d.node, fetch.transfer, piece, d.snapshot,
                          (*d.snapshot)[at.vector].vec().part(at.offset, at.count)});
  }
}

void StateSource::fetch(double now, const std::string& from, const FetchState& fetch,
                        SourceEffects& out) {
  Transfer* d = find(from, fetch.transfer);
  const auto refuse = [&](const std::string& why) {
    Manifest m;
    m.transfer = fetch.transfer;
    m.refused = why;
    out.replies.push_back({from, std::move(m)});
  };
  const auto its = std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& other) {
    return other.node == from &&
           (other.snapshot == nullptr || now < other.taken_at + kSnapshotServes_s);
  });
  if (fetch.pieces.empty() && d == nullptr && its != transfers_.end()) {
    // The same snapshot serves the new request.
    its->transfer = its->manifest.transfer = fetch.transfer;
    if (its->snapshot != nullptr) give(now, *its, fetch, out);
  } else if (fetch.pieces.empty() && d == nullptr) {
    const bool had_its_turn = node_down(from);  // the node has begun again
    if (transfers_.size() >= kTransfersAtMost)
      std::erase_if(transfers_, [&](const Transfer& other) {
        return other.snapshot != nullptr && other.progress_at + kTransferIdle_s <= now;
      });
    if (waits_ == from) waits_.clear();
    const bool others_turn = had_its_turn && !waits_.empty() && now < waits_since_ + kWaits_s;
    if (transfers_.size() < kTransfersAtMost && !others_turn) {
      transfers_.push_back({.node = from,
                            .transfer = fetch.transfer,
                            .taking = fetch.transfer,
                            .used_at = now,
                            .taken_at = now,
                            .progress_at = now,
                            .repeats = {now, 0}});
      out.takes.push_back({from, fetch});
    } else {
      if (!others_turn) {
        waits_ = from;
        waits_since_ = now;
      }
      refuse("serves " + std::to_string(kTransfersAtMost) + " newcomers already");
    }
  } else if (d == nullptr) {
    refuse("transfer " + std::to_string(fetch.transfer) + " is not held any more");
  } else if (d->snapshot != nullptr) {
    give(now, *d, fetch, out);
  }
  finish(out);
}

void StateSource::taken(double now, const std::string& node, Manifest manifest,
                        SnapshotPtr snapshot, SourceEffects& out) {
  const auto d = std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& other) {
    return other.node == node && other.taking == manifest.transfer && other.snapshot == nullptr;
  });
  if (d != transfers_.end()) {
    d->used_at = d->taken_at = d->progress_at = now;
    manifest.transfer = d->transfer;
    d->snapshot = std::move(snapshot);
    d->manifest = manifest;
    const bool refused = !manifest.refused.empty();
    out.replies.push_back({node, std::move(manifest)});
    if (refused) node_down(node);
  }
  finish(out);
}

bool StateSource::node_down(const std::string& node) {
  return std::erase_if(transfers_, [&](const Transfer& d) { return d.node == node; }) > 0;
}

void StateSource::timer(double now, SourceEffects& out) {
  std::erase_if(transfers_, [&](const Transfer& d) { return d.used_at + kTransferHeld_s <= now; });
  finish(out);
}

// --- the new node

Fetcher::Fetcher(const FetcherOptions& options) : options_(options), given_(options.shape) {
  GV_CHECK(!options.sources.empty());
  expect(options.shape.vectors);
}

/// Begins again, with a source that has this number of vectors.
void Fetcher::expect(uint32_t vectors) {
  given_.vectors = vectors;
  hashes_.assign(piece_count(given_), 0);
  there_.assign(piece_count(given_), false);
  vectors_.clear();
  for (uint32_t v = 0; v < std::min(vectors, options_.shape.vectors); ++v)
    vectors_.emplace_back(options_.shape.count, options_.shape.dtype);
}

const FetcherOptions::Source& Fetcher::source() const {
  return options_.sources[(turn_ - 1) % options_.sources.size()];
}

bool Fetcher::is_source(const std::string& node) const {
  return (stage_ == Stage::asking || stage_ == Stage::fetching) && node == source().node;
}

void Fetcher::finish(FetcherEffects& out) const {
  out.timer_at = stage_ == Stage::over ? kNever_s : due_at_;
}

void Fetcher::start(double now, FetcherEffects& out) {
  GV_CHECK(stage_ == Stage::idle);
  next_source(now, "", out);
  finish(out);
}

void Fetcher::next_source(double now, const std::string& why, FetcherEffects& out) {
  if (!why.empty()) out.lines.push_back("state from " + source().node + ": " + why);
  asked_.clear();
  missing_.clear();
  others_ = 0;
  lapses_ = bad_ = 0;
  last_piece_at_ = -1;
  if (turn_ == kTurns * options_.sources.size()) {
    stage_ = Stage::over;
    out.failed = true;
    return;
  }
  stage_ = Stage::resting;
  due_at_ = now + kRest_s * static_cast<double>(turn_ / options_.sources.size());
  if (turn_ % options_.sources.size() != 0 || turn_ == 0) ask_source(now, out);
}

void Fetcher::ask_source(double now, FetcherEffects& out) {
  ++turn_;
  stage_ = Stage::asking;
  const double bytes = static_cast<double>(options_.shape.vectors * options_.shape.vector_bytes());
  due_at_ = now + kManifest_s + bytes / kHashedPerSecond;
  ask_for({}, out);
}

void Fetcher::ask_for(std::vector<uint32_t> pieces, FetcherEffects& out) const {
  FetchState fetch;
  fetch.transfer = turn_;
  fetch.rank = source().rank;
  fetch.pieces = std::move(pieces);
  out.asks.push_back({source().node, std::move(fetch)});
}

void Fetcher::ask_more(double now, FetcherEffects& out) {
  std::vector<uint32_t> pieces;
  while (asked_.size() < kWindow && !missing_.empty()) {
    pieces.push_back(missing_.back());
    asked_.push_back(missing_.back());
    missing_.pop_back();
  }
  if (!pieces.empty()) ask_for(std::move(pieces), out);
  if (!asked_.empty()) return;
  const std::string why = options_.complaint ? options_.complaint(vectors_) : "";
  if (!why.empty()) return next_source(now, why, out);
  compare(now, out);
}

// --- the comparison with another source

/// Compares the state with the next source that was not asked. If none is left, the state is
/// accepted.
void Fetcher::compare(double now, FetcherEffects& out) {
  const size_t sources = options_.sources.size();
  while (options_.doubt && ++others_ < sources) {
    const FetcherOptions::Source& next = options_.sources[(turn_ - 1 + others_) % sources];
    if (next.node == source().node) continue;
    stage_ = Stage::comparing;
    other_ = {next.node, next.rank, kOthers + turn_ * sources + others_, options_.shape, {},
              {},        {}};
    const double bytes =
        static_cast<double>(options_.shape.vectors * options_.shape.vector_bytes());
    due_at_ = now + kManifest_s + bytes / kHashedPerSecond;
    out.asks.push_back({other_.node, {other_.transfer, other_.rank, {}}});
    return;
  }
  stage_ = Stage::over;
  out.done = true;
}

bool Fetcher::is_other(const std::string& node, uint64_t transfer) const {
  return stage_ == Stage::comparing && node == other_.node && transfer == other_.transfer;
}

void Fetcher::other_manifest(double now, const Manifest& m, FetcherEffects& out) {
  if (!other_.hashes.empty()) return;
  if (!complaint_about(m, options_.shape).empty()) return compare(now, out);
  other_.shape.vectors = m.vectors;
  other_.hashes = m.hashes;
  other_.sample.usual_step = m.usual_step;
  const uint32_t pieces = pieces_per_vector(other_.shape);
  Random random(std::bit_cast<uint64_t>(now), 0, Purpose::membership);
  for (uint32_t k = 0, wanted = std::min(kCompared, pieces); k < wanted; ++k) {
    const uint32_t from = k * pieces / wanted, to = (k + 1) * pieces / wanted;
    other_.missing.push_back(from + static_cast<uint32_t>(random.below(to - from)));
  }
  due_at_ = now + kFirstLapse_s;
  out.asks.push_back({other_.node, {other_.transfer, other_.rank, other_.missing}});
}

void Fetcher::other_piece(double now, uint32_t piece, ConstVec payload, FetcherEffects& out) {
  const auto asked = std::find(other_.missing.begin(), other_.missing.end(), piece);
  if (asked == other_.missing.end()) return;
  const PiecePlace at = place_of(other_.shape, piece);
  if (payload.dtype != options_.shape.dtype || payload.size != at.count ||
      piece_hash(payload) != other_.hashes[piece] || !all_finite({}, payload))
    return compare(now, out);
  other_.missing.erase(asked);
  other_.sample.places.push_back(at);
  Buffer& kept = other_.sample.contents.emplace_back(payload.size, payload.dtype);
  std::memcpy(kept.vec().data, payload.data, payload.bytes());
  due_at_ = now + kFirstLapse_s;
  if (other_.missing.empty()) judge(now, out);
}

void Fetcher::judge(double now, FetcherEffects& out) {
  const std::string why = options_.doubt(vectors_, other_.sample);
  // It bounds what others may move the new rank by, and one of the two may lie.
  if (other_.sample.usual_step > 0)
    manifest_.usual_step = std::min(manifest_.usual_step, other_.sample.usual_step);
  other_.sample = {};
  if (!why.empty() && ++doubted_ < options_.sources.size())
    return next_source(now, "far from that of " + other_.node + ": " + why, out);
  if (!why.empty())
    out.lines.push_back("no two states of " + std::to_string(options_.sources.size()) +
                        " nodes are near each other: this one begins with that of " +
                        source().node);
  stage_ = Stage::over;
  out.done = true;
}

// --- events

void Fetcher::manifest(double now, const std::string& from, const Manifest& m,
                       FetcherEffects& out) {
  if (is_other(from, m.transfer)) {
    other_manifest(now, m, out);
  } else if (is_source(from) && m.transfer == turn_) {
    if (const std::string why = complaint_about(m, options_.shape); !why.empty()) {
      next_source(now, why, out);
    } else if (stage_ == Stage::asking) {
      stage_ = Stage::fetching;
      manifest_ = m;
      kept_ = 0;
      if (m.vectors != given_.vectors) expect(m.vectors);
      const auto wanted = static_cast<uint32_t>(vectors_.size()) * pieces_per_vector(given_);
      for (uint32_t piece = wanted; piece-- > 0;) {
        const bool kept = there_[piece] && hashes_[piece] == m.hashes[piece];
        kept_ += kept;
        if (!kept) missing_.push_back(piece);
      }
      ask_more(now, out);
      if (stage_ == Stage::fetching) due_at_ = now + lapse_s();
    }
  }
  finish(out);
}

void Fetcher::piece(double now, const std::string& from, const StatePiece& came, ConstVec payload,
                    FetcherEffects& out) {
  if (is_other(from, came.transfer)) other_piece(now, came.piece, payload, out);
  const auto asked = std::find(asked_.begin(), asked_.end(), came.piece);
  if (stage_ == Stage::fetching && is_source(from) && came.transfer == turn_ &&
      asked != asked_.end()) {
    const PiecePlace at = place_of(given_, came.piece);
    const bool fits = payload.dtype == options_.shape.dtype && payload.size == at.count;
    const uint64_t hash = fits ? piece_hash(payload) : 0;
    if (fits && hash == manifest_.hashes[came.piece] && !all_finite({}, payload)) {
      next_source(now, "piece " + std::to_string(came.piece) + " is not finite", out);
    } else if (fits && hash == manifest_.hashes[came.piece]) {
      std::memcpy(vectors_[at.vector].vec().part(at.offset, at.count).data, payload.data,
                  payload.bytes());
      hashes_[came.piece] = hash;
      there_[came.piece] = true;
      asked_.erase(asked);
      learn(now);
      lapses_ = 0;
      ask_more(now, out);
      if (stage_ == Stage::fetching) due_at_ = now + lapse_s();
    } else {
      ++corrupt_;
      if (++bad_ >= kBad) {
        next_source(now, "piece " + std::to_string(came.piece) + " does not match its hash", out);
      } else {
        ask_for({came.piece}, out);
      }
    }
  }
  finish(out);
}

void Fetcher::node_down(double now, const std::string& node, FetcherEffects& out) {
  if (is_source(node)) next_source(now, "it is gone", out);
  if (is_other(node, other_.transfer)) compare(now, out);
  finish(out);
}

void Fetcher::timer(double now, FetcherEffects& out) {
  if (due_at_ <= now && stage_ == Stage::resting) {
    ask_source(now, out);
  } else if (due_at_ <= now && stage_ == Stage::comparing) {
    compare(now, out);
  } else if (due_at_ <= now && stage_ == Stage::asking) {
    next_source(now, "no manifest in time", out);
  } else if (due_at_ <= now && stage_ == Stage::fetching) {
    if (++lapses_ >= kLapses) {
      next_source(now, "no piece in time", out);
    } else {
      ask_for(asked_, out);
      due_at_ = now + lapse_s();
    }
  }
  finish(out);
}

void Fetcher::learn(double now) {
  if (last_piece_at_ >= 0) gap_.add(now - last_piece_at_);
  last_piece_at_ = now;
}

double Fetcher::lapse_s() const {
  if (!gap_.is_known()) return kFirstLapse_s;
  const double usual = kWindow * gap_.most_s();
  return std::clamp(usual, kLeastLapse_s, kLongestLapse_s) * (1 << lapses_);
}

}  // namespace grapevine
