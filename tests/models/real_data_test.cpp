// The published sets: how many records, of which labels, with which mean and deviation.
#include <array>
#include <cmath>

#include "models/data/data_set.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {
namespace {

using Counts = std::vector<size_t>;

Counts label_counts(const Samples& samples, int classes) {
  Counts counts(static_cast<size_t>(classes));
  for (const uint16_t label : samples.labels)
    ++counts[label];
  return counts;
}

void check_counts(const DataSet& data, const Counts& train, const Counts& test) {
  CHECK(label_counts(data.train, data.classes) == train);
  CHECK(label_counts(data.test, data.classes) == test);
}

void check_pixels(const DataSet& data, const std::vector<double>& mean,
                  const std::vector<double>& deviation) {
  for (size_t c = 0; c < mean.size(); ++c) {
    CHECK(std::abs(data.mean[c] / 255 - mean[c]) < 0.6e-4);
    CHECK(std::abs(data.deviation[c] / 255 - deviation[c]) < 0.6e-4);
  }
}

}  // namespace

TEST_CASE("The published data sets have their published counts, means and deviations") {
  const std::string folder = test::real_data("reading the published data sets");
  if (folder.empty()) return;
  SECTION("fashion-mnist") {
    const auto data = read_data_set("fashion-mnist", folder);
    REQUIRE(data);
    check_counts(*data, Counts(10, 6000), Counts(10, 1000));
    check_pixels(*data, {0.2860}, {0.3530});
  }
  SECTION("mnist") {
    const auto data = read_data_set("mnist", folder);
    REQUIRE(data);
    check_counts(*data, {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949},
                 {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
    check_pixels(*data, {0.1307}, {0.3081});
  }
  SECTION("cifar10, gzip and xz files together") {
    const auto data = read_data_set("cifar10", folder);
    REQUIRE(data);
    check_counts(*data, Counts(10, 5000), Counts(10, 1000));
    check_pixels(*data, {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616});
  }
  SECTION("optdigits") {
    const auto data = read_data_set("optdigits", folder);
    REQUIRE(data);
    check_counts(*data, {376, 389, 380, 389, 387, 376, 377, 387, 380, 382},
                 {178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  }
  SECTION("a9a") {
    const auto data = read_data_set("a9a", folder);
    REQUIRE(data);
    check_counts(*data, {24720, 7841}, {12435, 3846});
    size_t nonzeros = 0;
    for (const float value : data->train.features)
      nonzeros += value != 0;
    CHECK(nonzeros == 451592);
  }
  SECTION("w8a") {
    const auto data = read_data_set("w8a", folder);
    REQUIRE(data);
    const Counts train = label_counts(data->train, 2), held_out = label_counts(data->test, 2);
    CHECK(train[0] + held_out[0] == 48270);
    CHECK(train[1] + held_out[1] == 1479);
  }
}

}  // namespace grapevine
