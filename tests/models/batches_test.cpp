#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "models/batches.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"

namespace grapevine {
namespace {

constexpr SampleShape kGrey{1, 28, 28, true};
constexpr SampleShape kColour{3, 32, 32, true};

Partition iid(uint32_t samples, int ranks, uint64_t seed) {
  auto made = make_partition("iid", samples, {}, ranks, seed);
  REQUIRE(made);
  return *made;
}

NetworkPlan plan(const std::string& model, const SampleShape& shape, bool decay = true) {
  auto made = plan_network(model, shape, 10, decay);
  REQUIRE(made);
  return *made;
}

std::vector<float> start(const NetworkPlan& plan, uint64_t seed) {
  std::vector<float> x(plan.layout.size());
  initial_weights(plan, seed, {x.data(), x.size(), DType::f32});
  return x;
}

/// One 2 x 3 image of two channels with pixels 1..12; mean 0 and deviation 1 keep them as they are.
DataSet one_image() {
  DataSet data;
  data.train.shape = {2, 2, 3, true};
  data.train.pixels.resize(12);
  std::iota(data.train.pixels.begin(), data.train.pixels.end(), uint8_t{1});
  data.train.labels = {0};
  data.mean = {0, 0};
  data.deviation = {1, 1};
  data.mirrors = true;
  return data;
}

std::vector<float> shown(const DataSet& data, const Augmentation& how) {
  std::vector<float> out(data.train.shape.size());
  Gatherer(data).gather(data.train, 0, how, out.data());
  return out;
}

}  // namespace

TEST_CASE("The shares of all ranks cover every sample exactly once, sizes differing by at most 1") {
  for (const int ranks : {1, 3, 16, 64}) {
    const Partition partition = iid(1000, ranks, 7);
    std::vector<uint32_t> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto share = partition.share(rank);
      CHECK(share.size() == partition.share_size(rank));
      CHECK(share.size() >= 1000u / ranks);
      CHECK(share.size() <= 1000u / ranks + 1);
      all.insert(all.end(), share.begin(), share.end());
    }
    CHECK_FALSE(std::is_sorted(all.begin(), all.end()));
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == 1000);
    for (uint32_t k = 0; k < 1000; ++k)
      REQUIRE(all[k] == k);
  }
}

TEST_CASE("Another seed deals out other shares") {
  CHECK(iid(1000, 4, 1).share(2) != iid(1000, 4, 2).share(2));
}

TEST_CASE("A batch is a function of seed, rank and index, in whatever order it is asked for") {
  const auto partition = std::make_shared<Partition>(iid(250, 4, 3));
  Batches forwards(partition, 3, 8), scattered(partition, 3, 8);
  std::vector<std::vector<uint32_t>> expected;
  for (uint64_t index = 0; index < 40; ++index)
    expected.push_back(forwards.rows(2, index));
  for (uint64_t k = 0; k < 40; ++k) {
    const uint64_t index = k * 17 % 40;
    scattered.rows(1, k);
    CHECK(scattered.rows(2, index) == expected[index]);
  }
  Batches other_seed(partition, 4, 8);
  CHECK(other_seed.rows(2, 0) != expected[0]);
}

TEST_CASE("Each pass shows a rank every sample of its share once, in another order than the last") {
  const auto partition = std::make_shared<Partition>(iid(250, 4, 3));
  Batches batches(partition, 3, 8);
  const uint32_t size = partition->share_size(1);  // 62: no multiple of 8
  std::vector<uint32_t> walked;
  while (walked.size() < 3 * size) {
    const auto& rows = batches.rows(1, walked.size() / 8);
    walked.insert(walked.end(), rows.begin(), rows.end());
  }
  const auto share = partition->share(1);
  const std::set<uint32_t> expected(share.begin(), share.end());
  for (uint32_t pass = 0; pass < 3; ++pass) {
    const auto first = walked.begin() + pass * size;
    CHECK(std::set<uint32_t>(first, first + size) == expected);
  }
  CHECK_FALSE(std::equal(walked.begin(), walked.begin() + size, walked.begin() + size));
}

TEST_CASE("A gathered image has its channels innermost, and can be mirrored and shifted") {
  const DataSet data = one_image();  // channel 0: 1 2 3 / 4 5 6, channel 1: 7 8 9 / 10 11 12
  CHECK(shown(data, {}) == std::vector<float>{1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12});
  CHECK(shown(data, {0, 0, true}) == std::vector<float>{3, 9, 2, 8, 1, 7, 6, 12, 5, 11, 4, 10});
  CHECK(shown(data, {1, 0, false}) == std::vector<float>{0, 0, 0, 0, 0, 0, 1, 7, 2, 8, 3, 9});
  CHECK(shown(data, {0, -1, false}) == std::vector<float>{2, 8, 3, 9, 0, 0, 5, 11, 6, 12, 0, 0});
  CHECK(shown(data, {0, 2, true}) == std::vector<float>{1, 7, 0, 0, 0, 0, 4, 10, 0, 0, 0, 0});
}

TEST_CASE("Pixels are normalised per channel, and a shifted image has black edges") {
  DataSet data = one_image();
  data.mean = {2, 4};
  data.deviation = {2, 4};
  const auto out = shown(data, {1, 0, false});
  CHECK(out[0] == -1);
  CHECK(out[1] == -1);
  CHECK(out[6] == Approx((1.0 - 2) / 2));
  CHECK(out[7] == Approx((7.0 - 4) / 4));
}

TEST_CASE("Views are keyed, mirrored half of the time, and only where mirroring means the same") {
  DataSet data = one_image();
  int mirrored = 0;
  for (const Augmentation& how : training_augmentations(data, true, 1, 0, 0, 1000)) {
    mirrored += how.mirrored;
    CHECK((how.down == 0 && how.right == 0));
  }
  CHECK(std::abs(mirrored - 500) < 70);
  for (const Augmentation& how : training_augmentations(data, false, 1, 0, 0, 50))
    CHECK_FALSE(how.mirrored);
  data.crop_padding = 4;
  std::set<int> shifts;
  for (const Augmentation& how : training_augmentations(data, true, 1, 0, 0, 500)) {
    shifts.insert({how.down, how.right});
  }
  CHECK(shifts.size() == 9);
  CHECK((*shifts.begin() == -4 && *shifts.rbegin() == 4));
  const auto first_shifts = [&](int rank, uint64_t index) {
    std::vector<int> downs;
    for (const Augmentation& how : training_augmentations(data, true, 1, rank, index, 20)) {
      downs.push_back(how.down);
    }
    return downs;
  };
  CHECK(first_shifts(0, 1) == first_shifts(0, 1));
  CHECK(first_shifts(0, 1) != first_shifts(0, 2));
  CHECK(first_shifts(0, 1) != first_shifts(1, 1));
  data.mirrors = false;
  for (const Augmentation& how : training_augmentations(data, true, 1, 0, 0, 50))
    CHECK_FALSE(how.mirrored);
}

TEST_CASE("The networks have the published numbers of parameters") {
  CHECK(plan("linear", kGrey).layout.size() == 7850);
  CHECK(plan("mlp", kGrey).layout.size() == 101770);
  CHECK(plan("cnn-small", kGrey).layout.size() == 105866);
  CHECK(plan("cnn-big", kGrey).layout.size() == 421642);
  const NetworkPlan resnet = plan("resnet18", kColour);
  CHECK(resnet.layout.size() == 11173962);
  CHECK(resnet.layout.entries().size() == 62);
  CHECK(resnet.norms.size() == 20);
  CHECK(resnet.statistics_size == 9600);
}

TEST_CASE("A layout names its tensors as PyTorch does, and its hash stays what it was") {
  const NetworkPlan small = plan("cnn-small", kGrey);
  const auto& entries = small.layout.entries();
  REQUIRE(entries.size() == 8);
  CHECK(entries[0].name == "conv1.weight");
  CHECK(entries[0].shape == std::vector<int64_t>{16, 1, 3, 3});
  CHECK(entries[4].name == "fc1.weight");
  CHECK(entries[4].shape == std::vector<int64_t>{64, 1568});
  CHECK(entries[4].offset == 160 + 4640);
  const NetworkPlan resnet = plan("resnet18", kColour);
  CHECK(resnet.layout.entries()[15].name == "layer2.0.conv1.weight");
  CHECK(resnet.layout.hash() != plan("resnet18", kColour, false).layout.hash());
  CHECK(small.layout.hash() == 0xbc6f2557c8fcffde);
}

TEST_CASE("Norms and biases can be kept out of the weight decay") {
  const NetworkPlan all = plan("resnet18", kColour), matrices = plan("resnet18", kColour, false);
  for (const auto& entry : all.layout.entries())
    CHECK(entry.decays);
  for (const auto& entry : matrices.layout.entries()) {
    CHECK(entry.decays == (entry.shape.size() > 1));
  }
}

TEST_CASE("Weights start uniform within 1 / sqrt(fan-in), norms at one and zero") {
  const NetworkPlan resnet = plan("resnet18", kColour);
  const auto x = start(resnet, 1);
  for (size_t k = 0; k < resnet.layout.entries().size(); ++k) {
    const ParameterEntry& entry = resnet.layout.entries()[k];
    const auto first = x.begin() + entry.offset, last = first + entry.size();
    const auto [low, high] = std::minmax_element(first, last);
    if (entry.name.find("bn") != std::string::npos) {
      const float expected = entry.name.ends_with(".weight") ? 1.0f : 0.0f;
      CHECK((*low == expected && *high == expected));
    } else if (entry.size() > 1000) {
      const double bound = 1 / std::sqrt(static_cast<double>(entry.columns()));
      CHECK((*low >= -bound && *low < -0.98 * bound));
      CHECK((*high <= bound && *high > 0.98 * bound));
    }
  }
  CHECK(start(resnet, 1) == x);
  CHECK(start(resnet, 2) != x);
}

TEST_CASE("A network that cannot take the samples is refused with those that can") {
  const auto rows = plan_network("cnn-small", {123, 1, 1, false}, 2, true);
  REQUIRE(!rows);
  CHECK(rows.error().message ==
        "model cnn-small takes images of at least 4 x 4 pixels, the samples are rows of "
        "features, accepted: linear, mlp");
}

}  // namespace grapevine
