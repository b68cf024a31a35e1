// The destinations of payloads: pools that end, each for its own kind and its own node.
#include "actors/transport/arrivals.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

FrameHeader bytes(uint64_t count) {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.dtype = DType::bytes;
  h.count = count;
  return h;
}

}  // namespace

TEST_CASE(
    "payloads of frames have so many slots, small ones slots of their own, and then no more") {
  Arrivals arrivals(800, 2, 3);
  std::vector<Lease> held;
  for (const auto& [count, slots] : {std::pair{101u, 2}, {100u, 3}}) {
    for (int k = 0; k < slots; ++k) {
      held.push_back(arrivals.of_frame(bytes(count)));
      REQUIRE(held.back());
      CHECK(held.back().vec().bytes() >= count);
    }
    CHECK_FALSE(arrivals.of_frame(bytes(count)));
  }
  held.clear();
  CHECK(arrivals.of_frame(bytes(800)));
}

TEST_CASE("a node that sends parcel after parcel takes no other node's place, nor that of frames") {
  Arrivals arrivals(800, 1, 1);
  std::vector<Lease> held;
  for (size_t k = 0; k < Arrivals::kParcelsOfANode; ++k)
    held.push_back(arrivals.of_parcel("greedy"));
  CHECK(held.back());
  CHECK_FALSE(arrivals.of_parcel("greedy"));
  const Lease other = arrivals.of_parcel("other");
  REQUIRE(other);
  CHECK(other.vec().bytes() >= 800);
  CHECK(arrivals.of_frame(bytes(800)));
  held.pop_back();
  CHECK(arrivals.of_parcel("greedy"));
}
