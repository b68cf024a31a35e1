// The bytes that PowerGossip sends, counted, and its refusals.
#include <memory>
#include <tuple>

#include "kernels/memory/snapshot_pool.hpp"
#include "tests/algorithms/powergossip_tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

ParameterLayout resnet20() {
  ParameterLayout layout(DType::f32);
  const auto conv = [&](int64_t out, int64_t in, int64_t side) {
    layout.add("conv", {out, in, side, side}, true);
    layout.add("scale", {out}, false);
    layout.add("shift", {out}, false);
  };
  conv(16, 3, 3);
  int64_t in = 16;
  for (const int64_t out : {16, 32, 64}) {
    for (int layer = 0; layer < 6; ++layer)
      conv(out, layer == 0 ? in : out, 3);
    if (in != out) conv(out, in, 1);
    in = out;
  }
  layout.add("fc", {10, 64}, true);
  layout.add("bias", {10}, true);
  return layout;
}

ParameterLayout lstm() {
  ParameterLayout layout(DType::f32);
  layout.add("words", {28869, 650}, true);
  for (int layer = 0; layer < 3; ++layer) {
    layout.add("input", {2600, 650}, true);
    layout.add("hidden", {2600, 650}, true);
    layout.add("input bias", {2600}, true);
    layout.add("hidden bias", {2600}, true);
  }
  layout.add("bias", {28869}, true);
  return layout;
}

constexpr double kMiB = 1 << 20;

}  // namespace

TEST_CASE("an epoch of ResNet-20 sends exactly the bytes that its shapes say") {
  const ParameterLayout layout = resnet20();
  REQUIRE(layout.size() == 272474);
  const Buffer x(layout.size(), DType::f32), g(layout.size(), DType::f32);
  for (const auto& [iterations, expected, mebibytes] :
       {std::tuple{1, 49 * 4 * (794 + 5755 + 2 * 1578), 1.81},
        std::tuple{2, 49 * 8 * (794 + 5755 + 1578), 3.04}}) {
    const RuleSettings settings = power("powergossip:iterations=" + std::to_string(iterations));
    std::vector<std::unique_ptr<PowerGossip>> ring;
    for (int rank = 0; rank < 3; ++rank) {
      ring.push_back(std::make_unique<PowerGossip>(RuleContext{rank, 1, layout, {}, settings, x}));
      Neighbourhood near;
      for (int peer = 0; peer < 3; ++peer)
        if (peer != rank) near.neighbours.push_back({peer, 1. / 3, 1});
      ring.back()->enter(near);
    }
    CHECK(ring[0]->message_bytes() == 4 * (5755 + (iterations == 1 ? 1578 : 0)));
    SnapshotPool pool(ring[0]->message_bytes(), DType::bytes, 6);
    size_t bytes = 0;
    for (int step = 0; step < 2 * 49; ++step) {  // two epochs: as many odd iterations as even ones
      for (auto& rule : ring)
        rule->on_gradient(0, 0, g, {});
      for (int phase = 0; phase < iterations; ++phase) {
        Payload sent[3][2];
        for (const size_t rank : {0, 1, 2})
          for (const size_t edge : {0, 1}) {
            sent[rank][edge].lease = pool.take();
            ring[rank]->write(phase, edge, sent[rank][edge]);
            bytes += sent[rank][edge].vec().bytes();
          }
        for (const size_t rank : {0, 1, 2}) {
          const size_t a = rank == 0 ? 1 : 0, b = rank == 2 ? 1 : 2;
          const Received in[] = {{sent[a][rank == 0 ? 0 : rank - 1]},
                                 {sent[b][rank == 2 ? 1 : rank]}};
          ring[rank]->combine(0, phase, in);
        }
      }
    }
    CHECK(bytes == 2 * 3 * static_cast<size_t>(expected));
    CHECK(expected / kMiB == Approx(mebibytes).margin(0.005));
  }
}

TEST_CASE("a step of the word-level LSTM sends exactly the bytes that its shapes say") {
  const ParameterLayout layout = lstm();
  REQUIRE(layout.size() == 28949319);
  const auto step_bytes = [&](size_t rank, uint32_t iterations) {
    const FactorPlan plan(layout, {rank, iterations, true});
    size_t numbers = 0;
    for (uint32_t version = 0; version < iterations; ++version)
      numbers += plan.message_size(version);
    return 2 * 4 * numbers;  // to two neighbours
  };
  CHECK(step_bytes(1, 8) == 8 * (4 * (44469 + 4550) + 44469));
  CHECK(step_bytes(1, 8) / kMiB == Approx(1.84).margin(0.005));
  CHECK(step_bytes(1, 16) / kMiB == Approx(3.33).margin(0.005));
  CHECK(step_bytes(1, 32) / kMiB == Approx(6.32).margin(0.005));
  for (const auto& [iterations, rank] : {std::pair{4, 8}, std::pair{8, 4}, std::pair{16, 2}})
    CHECK(step_bytes(static_cast<size_t>(rank), static_cast<uint32_t>(iterations)) ==
          step_bytes(1, 32));
}

TEST_CASE("a wrong compress is refused in one line") {
  const Topology ring = *make_topology("ring", 4, 1);
  const auto refused = [&](const char* method, const char* compress) {
    const Status status = check_method(method, power(compress), "metropolis", ring);
    return status ? std::string("accepted") : status.error().message;
  };
  for (const char* spec :
       {"", "powergossip", "powergossip:rank=2", "powergossip:start=cold",
        "powergossip:start=cosines", "powergossip:rank=3,iterations=8,start=warm"})
    CHECK(refused("powergossip", spec) == "accepted");
  CHECK(refused("a2cid2", "powergossip:rank=2") == "accepted");
  const std::string accepted =
      " does not fit, accepted: powergossip:rank=R,iterations=S,start=warm|cold|cosines, R and S "
      "from 1 to 1000000";
  for (const char* part : {"rank=0", "rank=-1", "rank=1x", "rank=", "rank", "iterations=0",
                           "iterations=1000001", "start=hot", "sweeps=2", ""}) {
    const std::string spec = std::string("powergossip:rank=2,") + part;
    CHECK(refused("powergossip", spec.c_str()) ==
          "compress is \"" + spec + "\": \"" + part + "\"" + accepted);
  }
  CHECK(refused("ad_psgd", "top-k:0.1") == "compress is \"top-k:0.1\": \"top-k\"" + accepted);
  CHECK(refused("ad_psgd", "powergossip:iterations=2") ==
        "compress is \"powergossip:iterations=2\": an exchange of ad_psgd is one iteration, "
        "accepted: iterations=1");
  CHECK(refused("qgm", "powergossip").starts_with("compress is \"powergossip\" with method qgm"));
}
