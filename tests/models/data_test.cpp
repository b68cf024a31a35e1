#include <algorithm>
#include <functional>

#include "kernels/base/random.hpp"
#include "models/data/readers.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {
namespace {

using test::gzipped;
using test::idx_images;
using test::idx_labels;
using test::Scratch;
using test::xzipped;

std::string ending(const std::string& name) { return "/" + name; }

template <class T>
std::string error_of(const Result<T>& result) {
  REQUIRE(!result);
  CHECK(result.error().message.find('\n') == std::string::npos);
  return result.error().message;
}

/// The message without the scratch folder's name.
template <class T>
std::string short_error(const Scratch& scratch, const Result<T>& result) {
  std::string message = error_of(result);
  for (size_t at; (at = message.find(scratch.path() + "/")) != std::string::npos;) {
    message.erase(at, scratch.path().size() + 1);
  }
  return message;
}

const std::vector<uint8_t> kLabels = {3, 0, 9, 1};

}  // namespace

TEST_CASE("An IDX pair reads the same plain, gzipped and as xz") {
  const Scratch scratch;
  const Bytes images = idx_images(4, 5, 6), labels = idx_labels(kLabels);
  const std::vector<std::function<Bytes(const Bytes&)>> packers = {
      [](const Bytes& bytes) { return bytes; }, gzipped, xzipped};
  for (const auto& pack : packers) {
    const std::string i = scratch.file("i", pack(images)), l = scratch.file("l", pack(labels));
    const auto samples = read_idx(i, l, 10);
    REQUIRE(samples);
    CHECK(samples->shape == SampleShape{1, 5, 6, true});
    CHECK(samples->labels == std::vector<uint16_t>(kLabels.begin(), kLabels.end()));
    CHECK(samples->pixels == Bytes(images.begin() + 16, images.end()));
  }
}

TEST_CASE("A wrong IDX file is refused in one line with what was found and what is accepted") {
  const Scratch scratch;
  const Bytes images = idx_images(4, 5, 6), labels = idx_labels(kLabels);
  const std::string i = scratch.file("i", images), l = scratch.file("l", labels);
  CHECK(short_error(scratch, read_idx(l, l, 10)) == "l is cut: 12 bytes, an IDX header has 16");
  CHECK(short_error(scratch, read_idx(i, i, 10)) ==
        "i is no IDX file of labels: its magic number is 2051, accepted: 2049");
  CHECK(short_error(scratch, read_idx(i, l, 9)) == "l is damaged: label 2 is 9, accepted: 0 to 8");
  const Bytes cut(images.begin(), images.end() - 1);
  CHECK(short_error(scratch, read_idx(scratch.file("c", cut), l, 10)) ==
        "c is cut: 135 bytes, its header announces 136");
  Bytes longer = images;
  longer.push_back(0);
  CHECK(short_error(scratch, read_idx(scratch.file("c", longer), l, 10)) ==
        "c is too long: 137 bytes, its header announces 136");
  CHECK(short_error(scratch, read_idx(i, scratch.file("f", idx_labels({1, 2})), 10)) ==
        "f has 2 labels, i has 4 images, accepted: as many, and at least 1");
  Bytes packed = gzipped(images);
  packed.resize(packed.size() - 20);
  CHECK(short_error(scratch, read_idx(scratch.file("g", packed), l, 10))
            .starts_with("g is cut: its gzip stream ends after "));
  packed = xzipped(images);
  packed.resize(packed.size() - 20);
  CHECK(short_error(scratch, read_idx(scratch.file("x", packed), l, 10))
            .starts_with("x is cut: its xz stream ends after "));
  CHECK(short_error(scratch, read_idx(scratch.path("none"), l, 10)) ==
        "cannot read none: No such file or directory");
}

TEST_CASE("CIFAR-10 records come in file order, red plane first") {
  const Scratch scratch;
  Bytes file(2 * 3073);
  file[0] = 7;
  file[1] = 11;
  file[3073] = 2;
  file[3073 + 1 + 1024] = 12;
  const std::string path = scratch.file("b.gz", gzipped(file));
  const auto samples = read_cifar10({path, path}, 2);
  REQUIRE(samples);
  CHECK(samples->shape == SampleShape{3, 32, 32, true});
  CHECK(samples->labels == std::vector<uint16_t>{7, 2, 7, 2});
  CHECK(samples->pixels[0] == 11);
  CHECK(samples->pixels[3072 + 1024] == 12);
  CHECK(short_error(scratch, read_cifar10({path}, 3)) ==
        "b.gz is cut: 6,146 bytes, a CIFAR-10 file of 3 records has 9,219");
  file[3073] = 10;
  CHECK(short_error(scratch, read_cifar10({scratch.file("b", file)}, 2)) ==
        "b is damaged: the label of record 1 is 10, accepted: 0 to 9");
}

TEST_CASE("A bad line of optdigits is named by its number") {
  const Scratch scratch;
  std::string row;
  for (int k = 0; k < 64; ++k)
    row += "16,";
  const auto read = [&](const std::string& text) {
    return read_optdigits(scratch.file("d", text));
  };
  const auto good = read(row + "9\n" + row + "0\r\n");
  REQUIRE(good);
  CHECK(good->labels == std::vector<uint16_t>{9, 0});
  CHECK(good->pixels == Bytes(128, 16));
  CHECK(short_error(scratch, read(row + "9\n" + row + "10\n")) ==
        "d, line 2: number 65 is \"10\", accepted: 0 to 9");
  CHECK(short_error(scratch, read("17" + row.substr(2) + "1\n")) ==
        "d, line 1: number 1 is \"17\", accepted: 0 to 16");
  CHECK(short_error(scratch, read(row + "\n")) == "d, line 1: number 65 is \"\", accepted: 0 to 9");
  CHECK(short_error(scratch, read(row + "1,2\n")) ==
        "d, line 1: more than the 65 numbers expected");
  CHECK(short_error(scratch, read("1,2\n")) == "d, line 1: fewer than the 65 numbers expected");
  CHECK(short_error(scratch, read(row + "9\n" + row)) == "d is cut: line 2 has no end");
  CHECK(short_error(scratch, read("")) == "d is cut: it is empty");
}

TEST_CASE("LIBSVM lines become dense rows, and a bad one is named by its number") {
  const Scratch scratch;
  const auto read = [&](const std::string& text) {
    return read_libsvm(scratch.file("s", text), 4);
  };
  const auto good = read("+1 1:1 4:0.5 \n-1\n");
  REQUIRE(good);
  CHECK(good->labels == std::vector<uint16_t>{1, 0});
  CHECK(good->features == std::vector<float>{1, 0, 0, 0.5f, 0, 0, 0, 0});
  CHECK(short_error(scratch, read("+1 1:1\n2 1:1\n")) ==
        "s, line 2: the label is \"2\", accepted: +1, -1");
  CHECK(short_error(scratch, read("+1 5:1\n")) ==
        "s, line 1: index 5 follows 0, accepted: rising, 1 to 4");
  CHECK(short_error(scratch, read("+1 2:1 2:1\n")) ==
        "s, line 1: index 2 follows 2, accepted: rising, 1 to 4");
  for (const char* bad : {"x", "1:", ":1", "1:1e99", "1:nan", "1:inf", "1:1x", "99999999999:1"}) {
    CHECK(short_error(scratch, read("-1 " + std::string(bad) + "\n")) ==
          "s, line 1: found \"" + std::string(bad) + "\", accepted: index:value");
  }
}

TEST_CASE("A cut or flipped file gives an error or whole samples, never anything else") {
  const Scratch scratch;
  Random random(11, 0, Purpose::test);
  std::string digits, svm = "+1 1:1 3:0.25\n-1 2:1\n";
  for (int k = 0; k < 64; ++k)
    digits += std::to_string(k % 17) + ",";
  digits += "4\n";
  const Bytes labels = idx_labels(kLabels), images = idx_images(4, 5, 6);
  const std::string good_labels = scratch.file("l", labels);
  struct Case {
    Bytes content;
    std::function<Result<Samples>(const std::string&)> read;
    size_t classes;
  };
  const auto idx = [&](const std::string& path) { return read_idx(path, good_labels, 10); };
  const auto csv = [](const std::string& path) { return read_optdigits(path); };
  const auto sparse = [](const std::string& path) { return read_libsvm(path, 4); };
  const std::vector<Case> cases = {{images, idx, 10},
                                   {gzipped(images), idx, 10},
                                   {xzipped(images), idx, 10},
                                   {Bytes(digits.begin(), digits.end()), csv, 10},
                                   {Bytes(svm.begin(), svm.end()), sparse, 2},
                                   {gzipped(Bytes(svm.begin(), svm.end())), sparse, 2}};
  int refused = 0, read = 0;
  for (const Case& one : cases) {
    for (int trial = 0; trial < 300; ++trial) {
      Bytes bytes = one.content;
      const uint32_t size = static_cast<uint32_t>(bytes.size());
      if (trial % 3 == 0) bytes.resize(random.below(size));
      for (uint32_t flips = random.below(4); flips > 0 && !bytes.empty(); --flips) {
        bytes[random.below(static_cast<uint32_t>(bytes.size()))] ^= 1 << random.below(8);
      }
      const auto samples = one.read(scratch.file("damaged", bytes));
      if (!samples) {
        ++refused;
        CHECK(samples.error().message.find("damaged") != std::string::npos);
        continue;
      }
      ++read;
      const size_t stored = samples->pixels.size() + samples->features.size();
      CHECK(stored == samples->count() * samples->shape.size());
      for (const uint16_t label : samples->labels)
        CHECK(label < one.classes);
    }
  }
  CHECK(refused > 600);
  CHECK(read > 100);
}

TEST_CASE("The registry finds a set in the folder given or in its own folder inside it") {
  const Scratch scratch;
  test::write_optdigits(scratch, 30, 20);
  const auto here = read_data_set("optdigits", scratch.path());
  REQUIRE(here);
  CHECK(here->description() == "optdigits: 30 + 20 images 8x8x1, 10 classes");
  CHECK_FALSE(here->mirrors);
  scratch.file("parent/digits/optdigits.tra", test::read_raw(scratch.path("optdigits.tra")));
  scratch.file("parent/digits/optdigits.tes", test::read_raw(scratch.path("optdigits.tes")));
  const auto inside = read_data_set("optdigits", scratch.path("parent"));
  REQUIRE(inside);
  CHECK(inside->train.pixels == here->train.pixels);
}

TEST_CASE("A folder without data is the user's error, with the file, the folder and a remedy") {
  const Scratch scratch;
  const auto missing = read_data_set("fashion-mnist", scratch.path());
  CHECK(error_of(missing) ==
        "data set fashion-mnist: no train-images-idx3-ubyte (plain, .gz or .xz) in " +
            scratch.path() + " or " + scratch.path() + ending("fashion-mnist") +
            "; install the Debian package dataset-fashion-mnist or name the folder that has it "
            "with --data");
  CHECK(missing.error().exit_status() == 2);
  scratch.file("train-images-idx3-ubyte", idx_images(4, 5, 6));
  CHECK(error_of(read_data_set("mnist", scratch.path())) ==
        "data set mnist: no train-labels-idx1-ubyte (plain, .gz or .xz) in " + scratch.path() +
            "; name the folder that has it with --data");
  CHECK(error_of(read_data_set("cifar10", "")) ==
        "data set cifar10: no package installs it; fetch the binary version of CIFAR-10 and name "
        "the folder that has it with --data");
  CHECK(error_of(read_data_set("imagenet", "")) ==
        "data set is \"imagenet\", accepted: fashion-mnist, mnist, cifar10, optdigits, a9a, w8a, "
        "text:FILE, or a file called .csv, .tsv (also .gz, .xz), .npz or .safetensors");
}

TEST_CASE("Without a test file every tenth LIBSVM sample is held out") {
  const Scratch scratch;
  std::string text;
  for (int k = 1; k <= 20; ++k)
    text += k % 10 == 0 ? "+1 7:1\n" : "-1 8:1\n";
  scratch.file("w8a", text);
  const auto data = read_data_set("w8a", scratch.path());
  REQUIRE(data);
  CHECK(data->train.labels == std::vector<uint16_t>(18, 0));
  CHECK(data->test.labels == std::vector<uint16_t>(2, 1));
  CHECK(data->test.features[300 + 6] == 1);
}

}  // namespace grapevine
