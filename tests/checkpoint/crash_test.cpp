// Checkpoints on a disk that forgets what was not synced: what is there after any crash.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "app/checkpoint/checkpoint_thread.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "tests/catch.hpp"
#include "tests/checkpoint/forgetful_disk.hpp"
#include "tests/models/tools.hpp"

using namespace grapevine;
using grapevine::test::ForgetfulDisk;

namespace {

constexpr char kFolder[] = "run/checkpoints";
constexpr int kRanks = 3;

RunIdentity identity() { return {7, 8, "a method", "{\"lr\":0.1}", "", 16}; }

// Every number of it says which checkpoint it is of.
RankRecordPtr record_of(int rank, uint64_t serial) {
  auto record = std::make_shared<RankRecord>();
  record->rank = rank;
  record->gradients = 100 * serial + static_cast<uint64_t>(rank);
  for (const char* name : {"x", "x~"}) {
    Buffer values(300, DType::f32);
    for (size_t k = 0; k < values.size(); ++k)
      values.vec().as<float>()[k] = static_cast<float>(serial);
    record->vectors.push_back({name, std::move(values)});
  }
  record->numbers.push_back({"optimizer steps", serial, false});
  record->edges.push_back({(rank + 1) % kRanks, 1, 2, serial, 0.5, 0.25});
  return record;
}

/// Writes checkpoints, one after the other, until the machine stops.
class Machine {
 public:
  /// `leaves_out`: a kind of effect that does not happen, by its place among the kinds; -1: none.
  Machine(ForgetfulDisk& disk, uint64_t effects, int leaves_out = -1)
      : disk_(disk),
        left_(effects),
        leaves_out_(leaves_out),
        writer_(kFolder, checkpoints_in(disk.view(), kFolder), identity()) {}

  /// False: it has stopped.
  bool save(uint64_t serial, std::optional<Score> score = {}) {
    if (!happen(writer_.begin(1000 * serial))) return false;
    for (int rank = 0; rank < kRanks; ++rank)
      if (!happen(writer_.rank(record_of(rank, serial), {std::to_string(serial), serial})))
        return false;
    if (!happen(writer_.commit(1, "ring", "now", score))) return false;
    return happen(writer_.tidy());
  }
  uint64_t left() const { return left_; }

 private:
  bool happen(const DiskEffects& effects) {
    for (const DiskEffect& effect : effects) {
      if (left_ == 0) return false;
      --left_;
      if (static_cast<int>(effect.index()) != leaves_out_) disk_.happen(effect);
    }
    return true;
  }

  ForgetfulDisk& disk_;
  uint64_t left_;
  int leaves_out_;
  CheckpointWriter writer_;
};

// That all of it is of one checkpoint; which.
uint64_t serial_of(const Checkpoint& found) {
  const uint64_t serial = found.manifest.gradients / 1000;
  CHECK(found.ranks.size() == kRanks);
  for (const RankRecordPtr& record : found.ranks) {
    CHECK(record->gradients == 100 * serial + static_cast<uint64_t>(record->rank));
    CHECK(record->vectors.size() == 2);
    for (const RankRecord::Vector& v : record->vectors)
      for (size_t k = 0; k < v.values.size(); ++k)
        if (v.values.vec().as<float>()[k] != static_cast<float>(serial))
          FAIL("a number is another's");
    CHECK(record->numbers.front().bits == serial);
    CHECK(record->edges.front().exchanges == serial);
  }
  REQUIRE(found.kept.size() == kRanks);
  for (const KeptBlob& kept : found.kept)
    CHECK((kept.bytes == std::to_string(serial) && kept.steps == serial));
  return serial;
}

uint64_t effects_of(uint64_t checkpoints) {
  ForgetfulDisk disk;
  Machine machine(disk, ~uint64_t{0} >> 1);
  for (uint64_t serial = 1; serial <= checkpoints; ++serial)
    REQUIRE(machine.save(serial));
  return (~uint64_t{0} >> 1) - machine.left();
}

size_t manifests_in(const ForgetfulDisk& disk) {
  size_t count = 0;
  for (const std::string& name : disk.view().list(kFolder))
    count += disk.view().read(std::string(kFolder) + "/" + name + "/" + kManifestName).has_value();
  return count;
}

}  // namespace

TEST_CASE(
    "whenever the machine stops the newest whole checkpoint loads, and nothing less is taken for "
    "one") {
  constexpr uint64_t kCheckpoints = 7;
  const uint64_t effects = effects_of(kCheckpoints);
  int half_written = 0;
  for (uint64_t trial = 0; trial < 1000; ++trial) {
    INFO("trial " << trial);
    Random random(trial, 0, Purpose::test);
    ForgetfulDisk disk;
    uint64_t whole = 0;
    Machine machine(disk, 1 + random.below(static_cast<uint32_t>(effects)));
    while (whole < kCheckpoints && machine.save(whole + 1))
      ++whole;
    disk.stop(random);
    const auto found = load_checkpoint(disk.view(), "run");
    uint64_t goes_on_at = 0;
    if (whole > 0) REQUIRE(found);
    if (found) {
      goes_on_at = serial_of(*found);
      CHECK(goes_on_at >= whole);
      CHECK(goes_on_at <= whole + 1);
    }
    half_written += disk.view().list(kFolder).size() > manifests_in(disk);
    // A second life goes on from there, and is stopped too.
    Machine second(disk, 2000);
    for (uint64_t serial = goes_on_at + 1; serial <= goes_on_at + 4; ++serial)
      REQUIRE(second.save(serial));
    CHECK(manifests_in(disk) == CheckpointWriter::kKept);
    CHECK(disk.view().list(kFolder).size() == CheckpointWriter::kKept);
    disk.stop(random);
    const auto again = load_checkpoint(disk.view(), "run");
    REQUIRE(again);
    CHECK(serial_of(*again) == goes_on_at + 4);
  }
  CHECK(half_written > 300);
}

TEST_CASE(
    "the disk of these tests would notice a sync that is left out, of a file or of a folder") {
  constexpr int kSyncFile = 2, kSyncFolder = 4;
  static_assert(std::is_same_v<std::variant_alternative_t<kSyncFile, DiskEffect>, SyncFile>);
  static_assert(std::is_same_v<std::variant_alternative_t<kSyncFolder, DiskEffect>, SyncFolder>);
  const auto lost = [](int leaves_out) {
    int count = 0;
    for (uint64_t trial = 0; trial < 100; ++trial) {
      Random random(trial, 1, Purpose::test);
      ForgetfulDisk disk;
      Machine machine(disk, ~uint64_t{0} >> 1, leaves_out);
      for (uint64_t serial = 1; serial <= 2; ++serial)
        REQUIRE(machine.save(serial));
      disk.stop(random);
      const auto found = load_checkpoint(disk.view(), "run");
      count += !found || found->manifest.gradients != 2000;
    }
    return count;
  };
  CHECK(lost(-1) == 0);
  CHECK(lost(kSyncFile) > 50);
  CHECK(lost(kSyncFolder) > 50);
}

TEST_CASE("a flipped bit anywhere in a checkpoint passes it over, and the one before it loads") {
  ForgetfulDisk disk;
  Machine machine(disk, 1000);
  REQUIRE(machine.save(1));
  REQUIRE(machine.save(2));
  const std::string newest = std::string(kFolder) + "/000002000/";
  Random random(5, 0, Purpose::test);
  for (const char* file : {"rank-0.safetensors", "rank-1.kept", "rank-2.safetensors"}) {
    const size_t bits = 8 * disk.view().read(newest + file)->size();
    for (int trial = 0; trial < 100; ++trial) {
      const size_t bit = random.below(static_cast<uint32_t>(bits));
      disk.flip_bit(newest + file, bit);
      const auto found = load_checkpoint(disk.view(), "run");
      REQUIRE(found);
      CHECK(serial_of(*found) == 1);
      REQUIRE(found->passed_over.size() == 1);
      CHECK_THAT(found->passed_over.front(), Catch::Contains(file));
      const auto named = load_checkpoint(disk.view(), newest.substr(0, newest.size() - 1));
      REQUIRE(!named);
      CHECK(named.error().exit_status() == 2);
      disk.flip_bit(newest + file, bit);
    }
  }
}

TEST_CASE("a manifest with any bit flipped is an error or a manifest") {
  const CheckpointManifest written = [] {
    CheckpointManifest m;
    m.run = identity();
    m.serial = 3;
    m.ranks.push_back(
        {0, "rank-0.safetensors", 12, 34, 56, 78, {}, {{1, 1, 1, 9, 0.5, 0.1}}, {5, 6, 7}});
    return m;
  }();
  const std::string text = text_of(written);
  REQUIRE(parse_manifest("m", text));
  int refused = 0;
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const auto read = parse_manifest("m", damaged);
    refused += !read;
    if (!read) CHECK(read.error().message.find('\n') == std::string::npos);
  }
  CHECK(refused > static_cast<int>(7 * text.size()));  // the others are of the space around words
  for (const char* other : {"", "[]", "{}", "{\"format\":2}", "{\"format\":-1}", "[[[[", "null"})
    CHECK_FALSE(parse_manifest("m", other));
  for (const char* other : {"{}", "{\"format\":-1}", "{\"format\":1}"})
    CHECK_THAT(parse_manifest("m", sealed(other)).error().message, Catch::Contains("is missing"));
  CHECK_THAT(parse_manifest("m", sealed("{\"format\":2}")).error().message,
             Catch::Contains("m has format 2, accepted: 1"));
}

TEST_CASE("a checkpoint of a later format is neither passed over nor touched") {
  ForgetfulDisk disk;
  Machine machine(disk, 1000);
  REQUIRE(machine.save(1));
  const std::string later = std::string(kFolder) + "/000002000";
  const std::string manifest = later + "/" + kManifestName;
  const std::string text = sealed("{\"format\":2,\"serial\":\"two\"}");
  disk.happen(MakeFolder{later});
  disk.happen(WriteFile{manifest, text, {}, nullptr});
  const auto refused = load_checkpoint(disk.view(), "run");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().exit_status() == 2);
  CHECK(refused.error().message == newest_manifest(disk.view(), "run").error().message);
  CHECK_THAT(refused.error().message, Catch::Contains(manifest + " has format 2, accepted: 1"));
  // One that is named is gone on from, and what is saved then leaves the later one alone.
  CHECK(load_checkpoint(disk.view(), std::string(kFolder) + "/000001000"));
  Machine again(disk, 1000);
  for (uint64_t serial = 2; serial <= 5; ++serial)
    REQUIRE(again.save(serial));
  CHECK(disk.view().read(manifest) == text);
  CHECK(manifests_in(disk) == CheckpointWriter::kKept + 1);
}

TEST_CASE(
    "beside the last three the checkpoint of the best score stays, in every life of the run") {
  const auto scored = [](double value) { return Score{"test loss", value, false, 5}; };
  const auto left = [](const ForgetfulDisk& disk) {
    std::vector<uint64_t> numbers;
    for (const std::string& name : disk.view().list(kFolder))
      numbers.push_back(std::stoull(name) / 1000);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  };
  using Numbers = std::vector<uint64_t>;
  ForgetfulDisk disk;
  Machine first(disk, 100000);
  REQUIRE(first.save(1));  // before any test
  const double losses[] = {0.9, 0.2, 0.2, 0.5, 0.4, 0.3};
  for (uint64_t serial = 2; serial <= 7; ++serial)
    REQUIRE(first.save(serial, scored(losses[serial - 2])));
  CHECK(left(disk) == Numbers{3, 5, 6, 7});  // of equals the one next to its test
  const auto best = load_checkpoint(disk.view(), std::string(kFolder) + "/000003000");
  REQUIRE(best);
  REQUIRE(best->manifest.score);
  CHECK(best->manifest.score->by == "test loss");
  CHECK(best->manifest.score->value == 0.2);
  CHECK(best->manifest.score->gradients == 5);
  CHECK_FALSE(best->manifest.score->more_is_better);
  Machine second(disk, 100000);
  for (uint64_t serial = 8; serial <= 12; ++serial)
    REQUIRE(second.save(serial, scored(0.6)));
  CHECK(left(disk) == Numbers{3, 10, 11, 12});
  REQUIRE(second.save(13, scored(0.1)));
  CHECK(left(disk) == Numbers{11, 12, 13});
  // The scores have another name from here on.
  for (uint64_t serial = 14; serial <= 18; ++serial)
    REQUIRE(second.save(serial,
                        Score{"validation accuracy", 1.0 / static_cast<double>(serial), true, 5}));
  CHECK(left(disk) == Numbers{14, 16, 17, 18});
}

TEST_CASE("a manifest's score and cuts come back as they were, and what is none is refused") {
  CheckpointManifest m;
  m.run = identity();
  m.run.cuts = {{{64, 0, 128}, {4, 4}}, {{16, 32}, {5, 5, 5}}};
  m.score = Score{"validation accuracy", 0.75, true, 900};
  m.trained_s = 0.1 + 0.2;
  m.ranks.push_back(RankFile());
  m.ranks.back().share = {77, 3, 25, 9};
  const auto again = parse_manifest("m", text_of(m));
  REQUIRE(again);
  CHECK(again->ranks.front().share == m.ranks.front().share);
  CHECK(again->run.cuts == m.run.cuts);
  CHECK(again->score->by == m.score->by);
  CHECK(again->score->value == 0.75);
  CHECK(again->trained_s == 0.1 + 0.2);
  CHECK(again->score->more_is_better);
  const std::string text = text_of(m);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const size_t at = other.find(from);
    REQUIRE(at != other.npos);
    const auto read = parse_manifest("m", sealed(other.replace(at, from.size(), to)));
    REQUIRE_FALSE(read);
    CHECK(read.error().exit_status() == 2);
    return read.error().message;
  };
  CHECK_THAT(refused("0.75", "\"high\""), Catch::Contains("\"value\""));
  CHECK_THAT(refused("\"more_is_better\": true", "\"more_is_better\": 1"),
             Catch::Contains("more_is_better"));
  CHECK_THAT(refused("64", "-64"), Catch::Contains("\"taken\""));
  CHECK_THAT(refused("\"taken\"", "\"took\""), Catch::Contains("\"taken\""));
}

TEST_CASE("a checkpoint of a number that a whole one has leaves that one alone") {
  ForgetfulDisk disk;
  Machine first(disk, 1000);
  REQUIRE(first.save(1));
  for (uint64_t effects = 0; effects < 12; ++effects) {
    Machine again(disk, effects);  // the same number of gradients: nothing has happened since
    REQUIRE_FALSE(again.save(1));
    CHECK(load_checkpoint(disk.view(), "run"));
  }
}

TEST_CASE("a checkpoint that the end of a run overtakes leaves nothing behind") {
  const grapevine::test::Scratch scratch;
  const std::string folder = scratch.path("checkpoints");
  CheckpointThread writes(scratch.path(), identity(), false, [](const std::string&) {});
  const auto done = [](bool is_written, const std::string&) { CHECK(is_written); };
  writes.write({1000, record_of(0, 1)}, done);
  writes.write({1000, nullptr}, done);
  writes.write({2000, record_of(0, 2)}, done);
  CHECK(checkpoints_in(real_disk(), folder).size() == 2);
  writes.stop();
  const auto left = checkpoints_in(real_disk(), folder);
  REQUIRE(left.size() == 1);
  CHECK(left.begin()->second.manifest == CheckpointFolder::Manifest::good);
}

TEST_CASE(
    "the drift of the sum is told by the edges whose ends differ, and its bound by what they "
    "moved") {
  CheckpointManifest m;
  const auto rank = [&](int number, std::vector<RankRecord::Edge> edges) {
    RankFile file;
    file.rank = number;
    file.edges = std::move(edges);
    m.ranks.push_back(file);
  };
  rank(0, {{1, 1, 1, 12, 3.5, 0.5}, {2, 1, 1, 4, 1, 0.25}});
  rank(1, {{0, 1, 1, 10, 2.5, 0.5}, {2, 1, 1, 3, 1, 0.25}});
  rank(2, {{0, 1, 1, 4, 1, 0.25}, {1, 1, 1, 4, 1.25, 0.25}, {3, 1, 1, 8, 9, 9}});
  const Drift drift = drift_of(m.ranks);  // of rank 3 there is no file
  REQUIRE(drift.edges.size() == 2);
  CHECK(drift.edges[0].i == 0);
  CHECK(drift.edges[0].j == 1);
  CHECK(drift.edges[0].exchanges == 2);
  CHECK(drift.edges[0].at_most == 1.0);
  CHECK(drift.edges[1].i == 2);
  CHECK(drift.edges[1].j == 1);
  CHECK(drift.at_most == 1.25);
}
