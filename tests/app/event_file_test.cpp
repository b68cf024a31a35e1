// Event files: each record has its length and both sums, and is there at once.
#include "app/metrics/event_file.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// The one file of a folder; empty where there is none yet, nor the folder.
std::filesystem::path file_in(const std::string& folder) {
  std::error_code absent;
  const std::filesystem::directory_iterator first(folder, absent);
  return first == std::filesystem::directory_iterator() ? std::filesystem::path() : first->path();
}

/// The events of the one file in a folder; fails the test where a sum is wrong.
std::vector<std::string> events_in(const std::string& folder) {
  const auto file = file_in(folder);
  REQUIRE_FALSE(file.empty());
  CHECK_THAT(file.filename().string(), Catch::StartsWith("events.out.tfevents."));
  const std::string bytes = text_of(file.string());
  const auto sum_at = [&](size_t at) {
    uint32_t masked = 0;
    std::memcpy(&masked, bytes.data() + at, sizeof masked);
    masked -= 0xa282ead8u;
    return masked >> 17 | masked << 15;
  };
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    REQUIRE(at + 12 <= bytes.size());
    std::memcpy(&length, bytes.data() + at, sizeof length);
    CHECK(crc32c(bytes.substr(at, 8)) == sum_at(at + 8));
    REQUIRE(at + 16 + length <= bytes.size());
    events.push_back(bytes.substr(at + 12, length));
    CHECK(crc32c(events.back()) == sum_at(at + 12 + length));
    at += 16 + length;
  }
  return events;
}

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c("") == 0);
}

TEST_CASE("an event file grows by whole records, and leaves out what is not finite") {
  const Scratch scratch;
  auto file = EventFile::make(scratch.path("a/b"));
  REQUIRE(file);
  REQUIRE(
      file->scalars(300, {{"loss", 0.5}, {"accuracy", std::numeric_limits<double>::quiet_NaN()}}));
  REQUIRE(file->scalars(301, {{"loss", std::numeric_limits<double>::infinity()}}));
  REQUIRE(file->hyper_parameters({{"method", "a2cid2"}}));
  const auto events = events_in(scratch.path("a/b"));
  REQUIRE(events.size() == 3);
  CHECK_THAT(events[0], Catch::EndsWith("brain.Event:2"));
  // step = 300, summary { value { tag: "loss" simple_value: 0.5 } }
  CHECK(events[1].substr(9) ==
        std::string("\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f", 18));
  CHECK_THAT(events[2], Catch::Contains("_hparams_/session_start_info"));
}

TEST_CASE("with --tensorboard a run directory has the events of the mean and of each rank") {
  const Scratch scratch;
  const std::string run =
      "simulate --objective quadratic --ranks 3 --until 20 --sample-seconds 5 --test-every 10s ";
  REQUIRE(run_grapevine(run + "--tensorboard --out " + scratch.path("run")).status == 0);
  const auto mean = events_in(scratch.path("run/tensorboard/mean"));
  CHECK(mean.size() >= 5);
  CHECK(std::any_of(mean.begin(), mean.end(),
                    [](const auto& e) { return e.find("test_loss") != e.npos; }));
  CHECK(std::any_of(mean.begin(), mean.end(),
                    [](const auto& e) { return e.find("learning_rate") != e.npos; }));
  for (const char* rank : {"0", "1", "2"})
    CHECK(events_in(scratch.path("run/tensorboard/rank-") + rank).size() >= 5);
  check_refused(run + "--tensorboard", 2, {"tensorboard", "--out"});
}

TEST_CASE("a run that is killed has left curves of each of its ranks") {
  const Scratch scratch;
  Running life(
      "train --objective quadratic --ranks 3 --gradients 0 --until 1000 --sample-seconds 0.05 "
      "--tensorboard --out " +
      scratch.path("run"));
  const auto points_of = [&](const std::string& rank) -> size_t {
    // The folder is there a moment before its file.
    const auto file = file_in(scratch.path("run/tensorboard/rank-") + rank);
    if (file.empty()) return 0;
    const std::string bytes = text_of(file.string());
    size_t points = 0;
    for (size_t at = 0; (at = bytes.find("idle_fraction", at)) != bytes.npos; ++at)
      ++points;
    return points;
  };
  CHECK(eventually([&] { return points_of("0") > 1 && points_of("1") > 1 && points_of("2") > 1; },
                   kBusyMachine));
  life.signal(SIGKILL);
  CHECK(life.end() == 128 + SIGKILL);
  for (const std::string rank : {"0", "1", "2"})
    CHECK(events_in(scratch.path("run/tensorboard/rank-") + rank).size() >= 3);
}

TEST_CASE("curves of ranks are those of 64 at most") {
  const Scratch scratch;
  REQUIRE(run_grapevine("simulate --objective quadratic --ranks 80 --until 3 --sample-seconds 1 "
                        "--tensorboard --out " +
                        scratch.path("run"))
              .status == 0);
  CHECK(exists(scratch.path("run/tensorboard/rank-63")));
  CHECK_FALSE(exists(scratch.path("run/tensorboard/rank-64")));
}
