// The workspace of passes on a device: lent memory, requested numbers, and vectors that are copied
// there and back.
#include "kernels/passes/workspace.hpp"

#include <cmath>
#include <new>

#include "kernels/memory/ferry.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/catch.hpp"
#include "tests/device/adversary.hpp"
#include "tests/kernels/tools.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kBytes = 64 << 10, kAskings = 3, kPiece = 40;

struct Place {
  AdverseWorld world{1};
  Adversary device{world, "A"};
  Fences fences{device};
  Stream stream = make_stream();
  Block memory = block(kBytes, Block::Kind::device);
  Block numbers = block(Workspace::bytes_for(kAskings), Block::Kind::pinned);
  Block staging = block(Ferry::bytes_for(kPiece), Block::Kind::pinned);
  Workspace workspace{device, fences, stream, memory, numbers, kAskings};
  Execution on{nullptr, &device, stream, &workspace};
  std::vector<std::pair<Fence, std::function<void()>>> awaited;
  Ferry ferry{device,
              fences,
              {stream, stream},
              staging,
              kPiece,
              [this](const Fence& fence, std::function<void()> then) {
                awaited.emplace_back(fence, std::move(then));
              }};

  Stream make_stream() {
    Stream made;
    REQUIRE(fences.make_stream(Fences::Kind::shared, made) == Fate::ok);
    return made;
  }
  Block block(size_t bytes, Block::Kind kind) {
    Block made;
    REQUIRE(device.allocate(bytes, kind, made) == Fate::ok);
    return made;
  }
  void wait(const Fence& fence) {
    while (fences.query(fence) == Fate::later)
      REQUIRE(world.step());
  }
  /// Until nothing is on its way.
  void carry(bool last_first = false) {
    while (!awaited.empty()) {
      const auto told = last_first ? awaited.end() - 1 : awaited.begin();
      const auto [fence, then] = std::move(*told);
      awaited.erase(told);
      wait(fence);
      then();
    }
  }
  Buffer upload(ConstVec host) {
    Buffer there(on, host.size, host.dtype);
    ferry.up(host, there, [] {});
    carry();
    return there;
  }
  void check_clean() {
    world.run();
    device.finish_all();
    CHECK(world.judge().findings() == std::set<std::string>());
  }
};

}  // namespace

TEST_CASE("a workspace lends what comes back, and neighbours that are free become one") {
  Place t;
  void* const a = t.workspace.take(1000);
  void* const b = t.workspace.take(1000);
  void* const c = t.workspace.take(1000);
  CHECK(t.workspace.in_use() == 3 * 1024);
  t.workspace.give(a);
  t.workspace.give(c);
  t.workspace.give(b);
  CHECK(t.workspace.in_use() == 0);
  CHECK(t.workspace.most_in_use() == 3 * 1024);
  void* const all = t.workspace.take(kBytes);
  CHECK(all == a);
  CHECK_THROWS_AS(t.workspace.take(1), std::bad_alloc);
  t.workspace.give(all);
  CHECK(last_words([&] { t.workspace.give(all); }) != "");
}

TEST_CASE("a vector on a device is zero, and what it was in before does not show") {
  Place t;
  const Buffer ones = random_buffer(100, DType::f64, 1);
  t.upload(ones);  // gone at once
  Buffer fresh(t.on, 100, DType::f64), back(100, DType::f64);
  t.ferry.down(fresh, back, [] {});
  t.carry();
  CHECK(numbers(back) == numbers(Buffer(100, DType::f64)));
  t.check_clean();
}

TEST_CASE("vectors go to a device and back a piece at a time, in order, and say when") {
  Place t;
  std::vector<std::string> said;
  const Buffer first = random_buffer(33, DType::f32, 1), second = random_buffer(50, DType::f64, 2);
  Buffer a(t.on, 33, DType::f32), b(t.on, 50, DType::f64);
  Buffer a_back(33, DType::f32), b_back(50, DType::f64);
  t.ferry.up(first, a, [&] { said.push_back("a is up"); });
  t.ferry.up(second, b, [&] { said.push_back("b is up"); });
  t.ferry.down(b, b_back, [&] { said.push_back("b is back"); });
  t.ferry.down(a, a_back, [&] { said.push_back("a is back"); });
  t.carry();
  CHECK(said == std::vector<std::string>{"a is up", "b is up", "b is back", "a is back"});
  CHECK(numbers(a_back) == numbers(first));
  CHECK(numbers(b_back) == numbers(second));
  t.check_clean();
}

TEST_CASE(
    "a vector has come back when all of its pieces have, in whatever order they are told of") {
  Place t;
  const Buffer there = t.upload(random_buffer(35, DType::f32, 1));
  Buffer back(35, DType::f32);
  bool whole = false;
  t.ferry.down(there, back, [&] {
    whole = true;
    CHECK(numbers(back) == numbers(random_buffer(35, DType::f32, 1)));
  });
  t.carry(true);
  CHECK(whole);
  t.check_clean();
}

TEST_CASE("numbers are asked for first, answered with one, and there when they have come") {
  Place t;
  const Buffer x = random_buffer(1000, DType::f32, 1), y = random_buffer(1000, DType::f32, 2);
  const Buffer there = t.upload(x), other = t.upload(y);
  Inquiry inquiry;
  t.workspace.ask(inquiry, [&] {
    CHECK(dot(t.on, there, other) == 1);
    CHECK(square_distance(t.on, there, other) == 1);
    for (size_t place = 0; place < 40; ++place)  // more than one slot holds
      CHECK(number_at(t.on, there, place) == 1);
    CHECK(dot(t.on, there, other) == 1);  // known already
  });
  t.wait(inquiry.ready());
  t.workspace.answer(inquiry, [&] {
    for (size_t place = 40; place-- > 0;)  // in any order
      CHECK(number_at(t.on, there, place) == number_at({}, x, place));
    CHECK(square_distance(t.on, there, other) == square_distance({}, x, y));
    CHECK(dot(t.on, there, other) == dot({}, x, y));
  });
  CHECK(last_words([&] { t.workspace.answer(inquiry, [&] { dot(t.on, there, there); }); }) != "");
  CHECK(last_words([&] { dot(t.on, there, other); }) != "");
  t.check_clean();
}

TEST_CASE("what is asked of a vector that changes is told apart by the moment") {
  Place t;
  const Buffer x = random_buffer(100, DType::f64, 1);
  Buffer there = t.upload(x);
  Inquiry inquiry;
  t.workspace.ask(inquiry, [&] {
    dot(t.on, there, there, 0);
    scale(t.on, 2, there, there);
    dot(t.on, there, there, 1);
  });
  t.wait(inquiry.ready());
  t.workspace.answer(inquiry, [&] {
    CHECK(dot(t.on, there, there, 0) == dot({}, x, x));
    CHECK(dot(t.on, there, there, 1) == 4 * dot({}, x, x));
  });
  t.check_clean();
}

TEST_CASE("who asks for more than there is room for is told, and can ask again") {
  Place t;
  const Buffer there = t.upload(random_buffer(10, DType::f64, 1));
  std::vector<Inquiry> inquiries(kAskings);
  for (Inquiry& inquiry : inquiries)
    t.workspace.ask(inquiry, [&] { dot(t.on, there, there); });
  Inquiry another;
  const auto ask = [&] { t.workspace.ask(another, [&] { dot(t.on, there, there); }); };
  CHECK_THROWS_AS(ask(), std::bad_alloc);
  t.wait(inquiries.back().ready());
  inquiries.clear();
  another = {};
  ask();
  t.wait(another.ready());
  t.check_clean();
}
