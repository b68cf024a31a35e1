// A newcomer fetches a rank's state: whole, over lossy links, from a second source when the first
// dies, and never from one that lies.
#include <algorithm>
#include <cstring>
#include <map>
#include <queue>

#include "actors/cluster/state_transfer.hpp"
#include "kernels/base/random.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr SnapshotShape kShape{DType::f32, 2, 1'000'000};  // eight pieces of at most 1 MiB

SnapshotPtr snapshot(uint64_t seed, size_t differs_from = 0, uint32_t count = kShape.vectors) {
  auto vectors = std::make_shared<std::vector<Buffer>>();
  for (uint32_t v = 0; v < count; ++v) {
    Random random(v < differs_from ? 0 : seed, v, Purpose::test);
    float* x = vectors->emplace_back(kShape.count, kShape.dtype).vec().as<float>();
    for (uint64_t i = 0; i < kShape.count; i += 8)
      x[i] = static_cast<float>(random.uniform());
  }
  return vectors;
}

bool equal(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  for (size_t v = 0; v < a.size(); ++v) {
    if (std::memcmp(a[v].vec().data, b[v].vec().data, a[v].vec().bytes()) != 0) return false;
  }
  return a.size() == b.size();
}

/// `largest`: bytes that were hashed at once.
Manifest whole_manifest(const std::vector<Buffer>& vectors, uint64_t transfer,
                        uint64_t gradients = 0, uint64_t* largest = nullptr) {
  Manifest m = manifest_of(vectors, {}, transfer, gradients, 1);
  while (const uint64_t bytes = hash_next(vectors, m))
    if (largest != nullptr) *largest = std::max(*largest, bytes);
  return m;
}

// One newcomer and its sources, with a queue of what is under way.
class Exchange {
 public:
  struct Source {
    SnapshotPtr snapshot;
    StateSource source = {};
    bool alive = true;
    double corrupts = 0;  // probability that a bit of a piece flips
    std::function<void(Manifest&)> lies = [](Manifest&) {};
    int pieces = 0, dies_after = 1 << 30;
  };

  Exchange(uint64_t seed, std::vector<Source> sources, double loss = 0)
      : random_(seed, 1, Purpose::test), loss_(loss), sources_(std::move(sources)) {
    FetcherOptions options;
    options.shape = kShape;
    options.complaint = [this](const std::vector<Buffer>& vectors) { return complaint(vectors); };
    options.doubt = [this](const std::vector<Buffer>& vectors,
                           const FetcherOptions::Sample& others) { return doubt(vectors, others); };
    for (size_t i = 0; i < sources_.size(); ++i)
      options.sources.push_back({std::to_string(i), static_cast<uint32_t>(i)});
    fetcher = std::make_unique<Fetcher>(options);
  }

  std::function<std::string(const std::vector<Buffer>&)> complaint = [](const auto&) {
    return std::string();
  };

  std::function<std::string(const std::vector<Buffer>&, const FetcherOptions::Sample&)> doubt =
      [](const auto&, const auto&) { return std::string(); };

  bool run(double limit_s) {
    carry_out([&](FetcherEffects& out) { fetcher->start(now, out); });
    while (!done && !failed && now < limit_s) {
      if (queue_.empty() || timer_at_ <= queue_.begin()->first) {
        if (timer_at_ > limit_s) break;
        now = std::max(now, timer_at_);
        carry_out([&](FetcherEffects& out) { fetcher->timer(now, out); });
      } else {
        auto event = std::move(queue_.begin()->second);
        now = queue_.begin()->first;
        queue_.erase(queue_.begin());
        event();
      }
    }
    return done;
  }

  double now = 0;
  bool done = false, failed = false;
  std::vector<std::string> lines;
  std::unique_ptr<Fetcher> fetcher;

 private:
  void later(std::function<void()> event) {
    if (random_.uniform() >= loss_)
      queue_.emplace(now + 0.001 + 0.004 * random_.uniform(), std::move(event));
  }

  void carry_out(const std::function<void(FetcherEffects&)>& f) {
    FetcherEffects out;
    f(out);
    timer_at_ = out.timer_at;
    done = done || out.done;
    failed = failed || out.failed;
    lines.insert(lines.end(), out.lines.begin(), out.lines.end());
    for (const FetcherEffects::Ask& ask : out.asks) {
      later([this, ask] {
        Source& s = sources_[std::stoul(ask.to)];
        SourceEffects effects;
        if (s.alive) s.source.fetch(now, "newcomer", ask.fetch, effects);
        serve(ask.to, effects);
      });
    }
  }

  void serve(const std::string& name, SourceEffects& out) {
    Source& s = sources_[std::stoul(name)];
    for (const SourceEffects::Take& take : out.takes) {
      SourceEffects more;
      Manifest m = whole_manifest(*s.snapshot, take.fetch.transfer, 7);
      s.lies(m);
      s.source.taken(now, take.node, m, s.snapshot, more);
      serve(name, more);
    }
    for (const SourceEffects::Reply& reply : out.replies) {
      later([this, name, m = reply.manifest] {
        carry_out([&](FetcherEffects& o) { fetcher->manifest(now, name, m, o); });
      });
    }
    for (const SourceEffects::Piece& p : out.pieces) {
      if (++s.pieces > s.dies_after) s.alive = false;
      if (!s.alive) return;
      later([this, name, p, flips = random_.uniform() < s.corrupts] { deliver(name, p, flips); });
    }
  }

  void deliver(const std::string& name, const SourceEffects::Piece& p, bool flips) {
    const StatePiece piece{p.transfer, p.piece};
    Buffer copy(p.payload.size, p.payload.dtype);
    std::memcpy(copy.vec().data, p.payload.data, p.payload.bytes());
    if (flips) static_cast<char*>(copy.vec().data)[random_.below(1000)] ^= 4;
    carry_out([&](FetcherEffects& o) { fetcher->piece(now, name, piece, copy, o); });
  }

  Random random_;
  double loss_;
  std::vector<Source> sources_;
  std::multimap<double, std::function<void()>> queue_;
  double timer_at_ = 0;
};

using Source = Exchange::Source;

}  // namespace

TEST_CASE("a state is hashed a piece of at most 1 MiB at a time, and each has its hash") {
  const SnapshotPtr vectors = snapshot(1);
  uint64_t largest = 0;
  const Manifest m = whole_manifest(*vectors, 3, 7, &largest);
  WARN(m.hashes.size() << " pieces, the largest of " << largest << " bytes");
  CHECK(largest == kPieceBytes);
  CHECK(m.hashes.size() == 8u);
  CHECK(complaint_about(m, kShape) == "");
  const PiecePlace last = place_of(kShape, 7);
  CHECK(m.hashes[7] == piece_hash((*vectors)[1].vec().part(last.offset, last.count)));
}

TEST_CASE("pieces cover every element of every vector once, and are never too many") {
  for (const uint64_t count : {1ull, 1000ull, 262'144ull, 262'145ull, 3'000'000'000ull}) {
    for (const uint32_t vectors : {1u, 3u, 7u}) {
      const SnapshotShape shape{DType::f32, vectors, count};
      REQUIRE(piece_count(shape) <= kMaxPieces);
      uint64_t next = 0;
      for (uint32_t piece = 0; piece < piece_count(shape); ++piece) {
        const PiecePlace at = place_of(shape, piece);
        REQUIRE(at.vector * count + at.offset == next);
        REQUIRE(at.count > 0);
        next += at.count;
      }
      REQUIRE(next == vectors * count);
    }
  }
}

TEST_CASE("the hash of a piece is xxHash64") {
  const auto hash = [](const std::string& text) {
    return piece_hash(ConstVec(text.data(), text.size(), DType::bytes));
  };
  CHECK(hash("") == 0xEF46DB3751D8E999);
  CHECK(hash("abc") == 0x44BC2CF5AD770999);
  CHECK(hash("Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1);
  std::string text(1003, ' ');
  for (size_t k = 0; k < text.size(); ++k)
    text[k] = static_cast<char>(7 * k);
  CHECK(hash(text) == 0x7C109BC7A719EFBA);
}

TEST_CASE("what a newcomer fetches is its source's snapshot to the bit, also over lossy links") {
  for (const double loss : {0.0, 0.2}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Exchange exchange(seed, {Source{snapshot(1)}, Source{snapshot(2)}}, loss);
      INFO("loss " << loss << ", seed " << seed);
      REQUIRE(exchange.run(120));
      CHECK(exchange.fetcher->manifest().gradients == 7u);
      const std::vector<Buffer> got = exchange.fetcher->take();
      CHECK((equal(got, *snapshot(1)) || (loss > 0 && equal(got, *snapshot(2)))));
      if (loss == 0) CHECK(exchange.now < 0.1);
    }
  }
}

TEST_CASE("of a source with an optimizer, or without, a newcomer has what both have") {
  for (const uint32_t vectors : {1u, 2u, 3u, 4u}) {
    INFO(vectors);
    Source dies{snapshot(3)}, source{snapshot(1, 0, vectors)};
    dies.dies_after = 5;
    Exchange exchange(1, {dies, source});
    REQUIRE(exchange.run(60));
    CHECK(equal(exchange.fetcher->take(), *snapshot(1, 0, std::min(vectors, 2u))));
  }
  Exchange too_many(1, {Source{snapshot(1, 0, 5)}});
  CHECK_FALSE(too_many.run(60));
  CHECK_THAT(too_many.lines.at(0), Catch::Contains("vectors 5, accepted: 1 to 4"));
}

TEST_CASE(
    "a source that dies half-way is followed by another; what both have is not fetched anew") {
  Source first{snapshot(1, 1)}, second{snapshot(2, 1)};  // vector 0 is the same in both
  first.dies_after = 6;
  Exchange exchange(3, {first, second});
  REQUIRE(exchange.run(20));
  CHECK(exchange.fetcher->kept() == 4u);
  CHECK(equal(exchange.fetcher->take(), *second.snapshot));
  CHECK(exchange.now < 3 + 6 + 12);  // three lapses, before any rate was known
  REQUIRE(exchange.lines.size() == 1u);
  CHECK(exchange.lines[0] == "state from 0: no piece in time");
}

TEST_CASE("a state that is not finite, or none of this run, is asked of another source") {
  const SnapshotPtr sound = snapshot(2);
  for (const uint64_t at : {uint64_t{0}, kShape.count - 1}) {
    const auto unsound = std::const_pointer_cast<std::vector<Buffer>>(snapshot(1));
    unsound->back().vec().as<float>()[at] = std::numeric_limits<float>::quiet_NaN();
    Exchange exchange(4, {{unsound}, {sound}});
    REQUIRE(exchange.run(60));
    CHECK(equal(exchange.fetcher->take(), *sound));
  }
  Exchange exchange(4, {{snapshot(1)}, {sound}});
  int judged = 0;
  exchange.complaint = [&](const std::vector<Buffer>& vectors) {
    ++judged;
    return equal(vectors, *sound) ? "" : "it is none of this run";
  };
  REQUIRE(exchange.run(60));
  CHECK(judged == 2);
  CHECK(equal(exchange.fetcher->take(), *sound));
  Exchange in_vain(4, {{snapshot(1)}});
  in_vain.complaint = [](const auto&) { return "it is none of this run"; };
  CHECK_FALSE(in_vain.run(600));
  CHECK(in_vain.failed);
}

namespace {

// As far as ranks never are from each other.
std::string doubt(const std::vector<Buffer>& vectors, const FetcherOptions::Sample& others) {
  double square = 0;
  for (size_t k = 0; k < others.places.size(); ++k) {
    const PiecePlace& at = others.places[k];
    REQUIRE(at.vector == 0u);
    const float* x = vectors[0].vec().as<float>() + at.offset;
    const float* y = others.contents[k].vec().as<float>();
    for (uint64_t i = 0; i < at.count; ++i)
      square += static_cast<double>(x[i] - y[i]) * (x[i] - y[i]);
  }
  return std::sqrt(square) < 1000 ? "" : "it is far";
}

SnapshotPtr far_snapshot(uint64_t seed) {
  const auto far = std::const_pointer_cast<std::vector<Buffer>>(snapshot(seed));
  float* x = far->front().vec().as<float>();
  std::for_each(x, x + kShape.count, [](float& value) { value *= 1e4f; });
  return far;
}

}  // namespace

TEST_CASE("of the usual steps that two sources name a new rank has the smaller one") {
  for (const size_t liar : {size_t{0}, size_t{1}}) {
    std::vector<Source> sources{{snapshot(1)}, {snapshot(2)}};
    sources[liar].lies = [](Manifest& m) { m.usual_step = 1e30; };
    sources[1 - liar].lies = [](Manifest& m) { m.usual_step = 2; };
    Exchange exchange(9, sources);
    REQUIRE(exchange.run(20));
    CHECK(exchange.fetcher->manifest().usual_step == 2);
    sources[1].lies = [](Manifest&) {};  // it has made no steps yet
    Exchange with_none(9, sources);
    REQUIRE(with_none.run(20));
    CHECK(with_none.fetcher->manifest().usual_step > 0);
  }
}

TEST_CASE("a state that is far from another source's is asked of a third one") {
  const Source liar{far_snapshot(3)}, honest{snapshot(1)}, other{snapshot(2)};
  for (const std::vector<Source>& sources :
       {std::vector{liar, honest, other}, std::vector{honest, liar, other},
        std::vector{honest, other, liar}}) {
    Exchange exchange(9, sources);
    exchange.doubt = doubt;
    REQUIRE(exchange.run(20));
    CHECK_FALSE(equal(exchange.fetcher->take(), *liar.snapshot));
    CHECK(exchange.now < 0.2);
  }
  Exchange two(9, {liar, honest});  // nobody can know which one lies
  two.doubt = doubt;
  REQUIRE(two.run(20));
  REQUIRE(two.lines.size() == 2u);
  CHECK(two.lines[0] == "state from 0: far from that of 1: it is far");
  CHECK(two.lines[1] ==
        "no two states of 2 nodes are near each other: this one begins with that of 1");
}

TEST_CASE("a state is taken though nobody else has one to compare it with") {
  Source silent{snapshot(2)}, corrupt{snapshot(2)}, refuses{snapshot(2)};
  silent.alive = false;
  corrupt.corrupts = 1;
  refuses.lies = [](Manifest& m) { m.refused = "no"; };
  for (const Source& second : {silent, corrupt, refuses}) {
    const Source first{snapshot(1)};
    Exchange exchange(10, {first, second});
    exchange.doubt = [](const auto&, const auto&) { return "it is far"; };
    REQUIRE(exchange.run(20));
    CHECK(equal(exchange.fetcher->take(), *first.snapshot));
    CHECK(exchange.lines.empty());
  }
}

TEST_CASE("a source known to be gone is left at once") {
  FetcherOptions options{kShape, {{"a", 0}, {"b", 4}}};
  Fetcher fetcher(options);
  FetcherEffects out;
  fetcher.start(0, out);
  REQUIRE(out.asks.size() == 1u);
  fetcher.node_down(0.5, "a", out);
  REQUIRE(out.asks.size() == 2u);
  CHECK(out.asks[1].to == "b");
  CHECK(out.asks[1].fetch.rank == 4u);
  CHECK(out.asks[1].fetch.transfer != out.asks[0].fetch.transfer);
}

TEST_CASE("a corrupt piece is asked for again; who sends nothing else is left") {
  Source sometimes{snapshot(1)}, always{snapshot(1)}, honest{snapshot(2)};
  sometimes.corrupts = 0.4;
  Exchange again(5, {sometimes});
  REQUIRE(again.run(60));
  CHECK(again.fetcher->corrupt() > 0u);
  CHECK(equal(again.fetcher->take(), *sometimes.snapshot));
  always.corrupts = 1;
  Exchange left(6, {always, honest});
  REQUIRE(left.run(60));
  CHECK(equal(left.fetcher->take(), *honest.snapshot));
}

TEST_CASE("a manifest that does not fit the known layout is refused before anything is allocated") {
  const std::vector<std::function<void(Manifest&)>> lies{
      [](Manifest& m) { m.count = 1ull << 60; }, [](Manifest& m) { m.vectors = 0xffffffff; },
      [](Manifest& m) { m.piece_bytes = 1; },    [](Manifest& m) { m.piece_bytes = ~0ull; },
      [](Manifest& m) { m.hashes.clear(); },     [](Manifest& m) { m.hashes.resize(kMaxPieces); },
      [](Manifest& m) { m.dtype = DType::f64; }, [](Manifest& m) { m.ranks = 0; },
      [](Manifest& m) { m.refused = "no"; },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    Source liar{snapshot(1)}, honest{snapshot(2)};
    liar.lies = lies[i];
    Exchange exchange(7, {liar, honest});
    REQUIRE(exchange.run(20));
    CHECK(equal(exchange.fetcher->take(), *honest.snapshot));
    CHECK(exchange.lines.size() == 1u);
  }
  Source liar{snapshot(1)};
  liar.lies = lies[0];
  Exchange alone(8, {liar});
  CHECK_FALSE(alone.run(100));
  CHECK(alone.failed);
}

TEST_CASE("a source serves two at a time, asks no more of a stranger, and lets go after 30 s") {
  StateSource source;
  const auto fetch = [](uint64_t transfer, std::vector<uint32_t> pieces) {
    FetchState f;
    f.transfer = transfer;
    f.pieces = std::move(pieces);
    return f;
  };
  const SnapshotPtr vectors = snapshot(1);
  SourceEffects out;
  for (const std::string node : {"a", "b", "c"})
    source.fetch(0, node, fetch(1, {}), out);
  CHECK(out.takes.size() == 2u);
  REQUIRE(out.replies.size() == 1u);
  CHECK(out.replies[0].manifest.refused == "serves 2 newcomers already");
  source.taken(1, "a", whole_manifest(*vectors, 1), vectors, out);
  out = {};
  source.fetch(2, "a", fetch(1, {0, 7, 8, 0xffffffff}), out);
  CHECK(out.pieces.size() == 2u);
  source.fetch(2, "a", fetch(1, std::vector<uint32_t>(4000, 1)), out);
  CHECK(out.pieces.size() == 2u + 1 + kAgainAtMost);
  out = {};
  source.fetch(3, "a", fetch(2, {0}), out);
  REQUIRE(out.replies.size() == 1u);
  CHECK(out.replies[0].manifest.refused == "transfer 2 is not held any more");
  out = {};
  source.fetch(3.9, "d", fetch(1, {}), out);
  CHECK(out.takes.empty());
  source.fetch(4.1, "d", fetch(2, {}), out);  // "a" has not asked for 2 s: it gives way
  CHECK(out.takes.size() == 1u);
  source.timer(31.5, out);
  CHECK(source.held() == 1u);
  source.timer(34.5, out);
  CHECK(source.held() == 0u);
}

TEST_CASE("two nodes that ask without end do not keep a third one from a source") {
  const SnapshotPtr vectors = snapshot(1);
  for (const bool same_request : {true, false}) {
    INFO("the same request: " << same_request);
    StateSource source;
    SourceEffects out;
    uint64_t number = 1;
    const auto ask = [&](double now, const std::string& node) {
      out = {};
      FetchState f;
      f.transfer = number;
      source.fetch(now, node, f, out);
      if (!out.takes.empty())
        source.taken(now, node, whole_manifest(*vectors, f.transfer), vectors, out);
      f.pieces = {0};
      source.fetch(now, node, f, out);
      return !out.pieces.empty();
    };
    bool is_served = false;
    for (int k = 0; k < 40 && !is_served; ++k) {
      if (!same_request) ++number;
      ask(k + 0.1, "liar");
      ask(k + 0.2, "another liar");
      is_served = ask(k + 0.3, "honest");
    }
    CHECK(is_served);
  }
}

TEST_CASE(
    "a newcomer that asks for one piece for ever is sent few, and no second snapshot at once") {
  StateSource source;
  const SnapshotPtr vectors = snapshot(1);
  SourceEffects out;
  FetchState all, one;
  all.transfer = one.transfer = 1;
  one.pieces.assign(16, 3);
  source.fetch(0, "a", all, out);
  source.taken(0, "a", whole_manifest(*vectors, 1), vectors, out);
  out = {};
  for (int k = 0; k < 20'000; ++k)
    source.fetch(1 + 1e-5 * k, "a", one, out);  // 0.2 s
  CHECK(out.pieces.size() == 1u + kAgainAtMost);
  CHECK(out.replies.empty());
  for (int k = 0; k < 20'000; ++k)
    source.fetch(1.21, "a", all, out);
  CHECK(out.replies.empty());  // manifests are as large as pieces are many
  out = {};
  for (int k = 0; k < 20'000; ++k)
    source.fetch(1 + kLeastLapse_s, "a", one, out);
  CHECK(out.pieces.size() == static_cast<size_t>(kAgainAtMost));
  out = {};
  for (all.transfer = 2; all.transfer < 20'000; ++all.transfer)
    source.fetch(1.9, "a", all, out);
  CHECK(out.takes.empty());
  REQUIRE(out.replies.size() == static_cast<size_t>(kAgainAtMost));
  CHECK(out.replies[0].manifest.transfer == 2);
  CHECK(out.replies[0].manifest.refused.empty());
  source.fetch(kSnapshotServes_s, "a", all, out);
  CHECK(out.takes.size() == 1u);
}

TEST_CASE("one snapshot at a time is taken for a newcomer, however often it asks") {
  StateSource source;
  SourceEffects out;
  FetchState f;
  for (uint64_t k = 1; k <= 20'000; ++k) {
    f.transfer = k;
    source.fetch(0, "a", f, out);
  }
  REQUIRE(out.takes.size() == 1u);
  CHECK(out.replies.empty());
  CHECK(source.held() == 1u);
  const SnapshotPtr vectors = snapshot(1);
  source.taken(1, "a", whole_manifest(*vectors, out.takes[0].fetch.transfer), vectors, out);
  REQUIRE(out.replies.size() == 1u);
  CHECK(out.replies[0].manifest.transfer == 20'000);
}

TEST_CASE("one request brings sixteen pieces at most, however many it names") {
  constexpr uint32_t kPieces = 40;  // of a vector each
  auto vectors = std::make_shared<std::vector<Buffer>>();
  std::vector<uint32_t> all;
  for (uint32_t k = 0; k < kPieces; ++k) {
    vectors->emplace_back(4, DType::f32);
    all.push_back(k);
  }
  StateSource source;
  SourceEffects out;
  FetchState fetch;
  fetch.transfer = 1;
  source.fetch(0, "a", fetch, out);
  source.taken(1, "a", whole_manifest(*vectors, 1), vectors, out);
  fetch.pieces = all;
  source.fetch(2, "a", fetch, out);
  CHECK(out.pieces.size() == 16u);
}

TEST_CASE(
    "a piece of another type than the state's is refused, though its hash is the promised one") {
  FetcherOptions options;
  options.shape = {DType::f32, 1, 4};
  options.sources = {{"a", 0}};
  Fetcher fetcher(options);
  FetcherEffects out;
  fetcher.start(0, out);
  const std::vector<Buffer> own = [] {
    std::vector<Buffer> one;
    one.emplace_back(4, DType::f32);
    return one;
  }();
  Manifest m = whole_manifest(own, 1);
  const Buffer wide(4, DType::f64);  // twice the bytes
  m.hashes = {piece_hash(wide.vec())};
  fetcher.manifest(0.1, "a", m, out);
  fetcher.piece(0.2, "a", {1, 0}, wide.vec(), out);
  CHECK(fetcher.corrupt() == 1u);
  CHECK_FALSE(out.done);
}
