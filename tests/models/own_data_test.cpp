// Samples from files of the user's own. Files are made byte by byte here, and damaged.
#include "models/data/own_data.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "kernels/base/random.hpp"
#include "models/files/tensor_file.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {
namespace {

using Catch::Contains;
using test::Scratch;

struct Array {
  std::string name, type, shape;
  Bytes data;
  bool by_columns = false;
};

template <class T>
Array array(const std::string& name, const std::string& type, const std::string& shape,
            const std::vector<T>& values) {
  const auto* const first = reinterpret_cast<const uint8_t*>(values.data());
  return {name, type, shape, Bytes(first, first + values.size() * sizeof(T)), false};
}

void put(Bytes& to, uint64_t value, int bytes) {
  for (int k = 0; k < bytes; ++k)
    to.push_back(static_cast<uint8_t>(value >> 8 * k));
}
void put(Bytes& to, const std::string& text) { to.insert(to.end(), text.begin(), text.end()); }

Bytes npy(const Array& a) {
  std::string header = "{'descr': '" + a.type +
                       "', 'fortran_order': " + (a.by_columns ? "True" : "False") +
                       ", 'shape': " + a.shape + ", }";
  header.resize((header.size() + 11) / 64 * 64 + 53, ' ');
  header += '\n';
  Bytes bytes;
  put(bytes, "\x93NUMPY\x01");
  put(bytes, 0, 1);
  put(bytes, header.size(), 2);
  put(bytes, header);
  bytes.insert(bytes.end(), a.data.begin(), a.data.end());
  return bytes;
}

Bytes deflated(const Bytes& bytes) {
  Bytes out(bytes.size() + 1000);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// As numpy.savez writes it (`packs`: savez_compressed): the sizes in the local headers are
/// zip64's.
Bytes npz(const std::vector<Array>& arrays, bool packs = false) {
  Bytes file, directory;
  for (const Array& a : arrays) {
    const Bytes plain = npy(a), stored = packs ? deflated(plain) : plain;
    const uint64_t crc = crc32_z(0, plain.data(), plain.size()), at = file.size();
    put(file, 0x04034b50, 4), put(file, 45, 2), put(file, 0, 2), put(file, packs ? 8 : 0, 2);
    put(file, 0, 4), put(file, crc, 4), put(file, 0xffffffff, 4), put(file, 0xffffffff, 4);
    put(file, a.name.size() + 4, 2), put(file, 20, 2), put(file, a.name + ".npy");
    put(file, 1, 2), put(file, 16, 2), put(file, plain.size(), 8), put(file, stored.size(), 8);
    file.insert(file.end(), stored.begin(), stored.end());
    put(directory, 0x02014b50, 4), put(directory, 45, 2), put(directory, 45, 2);
    put(directory, 0, 2), put(directory, packs ? 8 : 0, 2), put(directory, 0, 4);
    put(directory, crc, 4), put(directory, stored.size(), 4), put(directory, plain.size(), 4);
    put(directory, a.name.size() + 4, 2), put(directory, 0, 2), put(directory, 0, 2);
    put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4), put(directory, at, 4);
    put(directory, a.name + ".npy");
  }
  const size_t at = file.size();
  file.insert(file.end(), directory.begin(), directory.end());
  put(file, 0x06054b50, 4), put(file, 0, 4), put(file, arrays.size(), 2);
  put(file, arrays.size(), 2), put(file, directory.size(), 4), put(file, at, 4), put(file, 0, 2);
  return file;
}

std::vector<Array> four() {
  return {array<float>("train_inputs", "<f4", "(3, 2)", {1, 2, 3, 4, 5, 6}),
          array<uint8_t>("train_targets", "|u1", "(3,)", {0, 2, 1}),
          array<double>("test_inputs", "<f8", "(1, 2)", {7, 8}),
          array<int64_t>("test_targets", "<i8", "(1,)", {1})};
}

std::string refused(const std::string& path, const std::string& loss = "auto") {
  const auto data = read_own_data(path, loss);
  REQUIRE_FALSE(data);
  CHECK(data.error().exit_status() == 2);
  CHECK(data.error().message.find('\n') == std::string::npos);
  return data.error().message;
}

float number_of(const StoredTensor& t, size_t k) {
  float value;
  std::memcpy(&value, t.bytes.data() + k * sizeof value, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("an npz file gives samples and classes, stored or deflated") {
  const Scratch scratch;
  for (const bool packs : {false, true}) {
    const auto data = read_own_data(scratch.file("own.npz", npz(four(), packs)));
    REQUIRE(data);
    CHECK(data->has_classes());
    CHECK(data->classes == 3);
    CHECK(data->train_inputs.shape == std::vector<int64_t>{3, 2});
    CHECK(number_of(data->train_inputs, 5) == 6);
    CHECK(number_of(data->test_inputs, 1) == 8);
    int64_t label = 0;
    std::memcpy(&label, data->train_targets.bytes.data() + 8, 8);
    CHECK(label == 2);
    CHECK_THAT(data->description(), Contains("samples of [2], 3 classes"));
  }
}

TEST_CASE("an npz file that is cut anywhere, or flipped anywhere, is refused or whole") {
  const Scratch scratch;
  for (const bool packs : {false, true}) {
    const Bytes good = npz(four(), packs);
    for (size_t size = 0; size < good.size(); ++size) {
      const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
      INFO(size);
      CHECK_THAT(refused(scratch.file("cut.npz", cut)), Contains("cut"));
    }
    Random random(5, 0, Purpose::test);
    for (int trial = 0; trial < 2000; ++trial) {
      Bytes flipped = good;
      flipped[random.below(static_cast<uint32_t>(good.size()))] ^= 1 << random.below(8);
      const auto tensors = read_tensors(scratch.file("flipped.npz", flipped));
      if (!tensors) continue;
      for (const StoredTensor& t : *tensors) {
        const ModelTensor like{t.name, t.shape, t.type, nullptr};
        CHECK(t.bytes.size() == like.bytes());
      }
    }
  }
}

TEST_CASE("an npz file packed in another way or encrypted is not said to be damaged") {
  const Scratch scratch;
  const auto with = [&](size_t behind, uint8_t value) {
    Bytes file = npz(four());
    for (size_t at = 0; at + 12 < file.size(); ++at) {
      if (file[at] != 'P' || file[at + 1] != 'K' || file[at + 3] != file[at + 2] + 1) continue;
      if (file[at + 2] == 1) file[at + 8 + behind] = value;  // in the directory
      if (file[at + 2] == 3) file[at + 6 + behind] = value;
    }
    return refused(scratch.file("own.npz", file));
  };
  CHECK_THAT(with(2, 97), Contains("is packed by method 97 of zip, accepted: "));
  CHECK_THAT(with(0, 1), Contains("is encrypted, accepted: "));
}

TEST_CASE("sizes that an npz file only announces are not believed") {
  const Scratch scratch;
  const auto with = [&](const Array& inputs) {
    return scratch.file("own.npz", npz({inputs, array<int64_t>("targets", "<i8", "(1,)", {0})}));
  };
  const std::string huge = "(9007199254740992, 9007199254740992)";
  CHECK_THAT(refused(with(array<float>("inputs", "<f4", huge, {1}))), Contains("cut or damaged"));
  CHECK_THAT(refused(with(array<float>("inputs", "<f4", "(4, 4)", {1}))),
             Contains("cut or damaged"));
  Bytes bomb = npz({array<float>("inputs", "<f4", "(1,)", {1})}, true);
  const size_t size_at = bomb.size() - 22 - 46 - 10 + 24;  // of the entry in the directory
  for (size_t k = 0; k < 4; ++k)
    bomb[size_at + k] = 0xfe;
  CHECK_THAT(refused(scratch.file("c.npz", bomb)), Contains("cut or damaged"));
  CHECK_THAT(refused(with(array<float>("inputs", "<c8", "(1,)", {1, 2}))),
             Contains("\"<c8\", accepted: floats"));
}

TEST_CASE("a safetensors file gives samples, every tenth for the test where none are named so") {
  const Scratch scratch;
  std::vector<float> inputs(20 * 3), targets(20);
  for (size_t k = 0; k < inputs.size(); ++k)
    inputs[k] = static_cast<float>(k);
  for (size_t k = 0; k < targets.size(); ++k)
    targets[k] = static_cast<float>(k) / 2;
  const std::string path = scratch.path("own.safetensors");
  REQUIRE(write_safetensors(path, {{"inputs", {20, 3}, TensorType::f32, inputs.data()},
                                   {"targets", {20}, TensorType::f32, targets.data()}}));
  const auto data = read_own_data(path);
  REQUIRE(data);
  CHECK_FALSE(data->has_classes());
  CHECK(data->outputs == 1);
  CHECK(data->train_inputs.shape == std::vector<int64_t>{18, 3});
  CHECK(data->test_inputs.shape == std::vector<int64_t>{2, 3});
  CHECK(number_of(data->test_inputs, 0) == 27);
  CHECK(number_of(data->test_targets, 1) == 9.5f);
  CHECK(number_of(data->train_inputs, 9 * 3) == 30);
}

TEST_CASE("rows without numbers are refused, however many a file announces") {
  const Scratch scratch;
  constexpr int64_t kMany = int64_t{1} << 47;
  const std::vector<float> some(20);
  const auto complaint = [&](std::vector<int64_t> inputs, std::vector<int64_t> targets) {
    const std::string path = scratch.path("empty.safetensors");
    REQUIRE(write_safetensors(path, {{"inputs", inputs, TensorType::f32, some.data()},
                                     {"targets", targets, TensorType::f32, some.data()}}));
    return refused(path);
  };
  CHECK_THAT(complaint({kMany, 0}, {kMany, 0}), Contains("accepted: no side of 0"));
  CHECK_THAT(complaint({20, 1}, {kMany, 0}), Contains("accepted: as many of both"));
  CHECK_THAT(complaint({kMany, 0}, {20}), Contains("accepted: no side of 0"));
  CHECK_THAT(complaint({20, 1}, {20, 0}), Contains("accepted: as many of both"));
  const std::string shape = "(140737488355328, 0)";
  CHECK_THAT(refused(scratch.file("own.npz", npz({array<float>("x", "<f4", shape, {}),
                                                  array<float>("y", "<f4", shape, {})}))),
             Contains("accepted: no side of 0"));
}

TEST_CASE("a table gives features and a target, by name or the last one") {
  const Scratch scratch;
  std::string rows = "a,label,b\n";
  for (int k = 0; k < 20; ++k)
    rows += std::to_string(k) + ".5," + std::to_string(k % 3) + ",-1e3\r\n";
  const auto data = read_own_data(scratch.file("own.csv", rows));
  REQUIRE(data);
  CHECK(data->classes == 3);
  CHECK(data->train_inputs.shape == std::vector<int64_t>{18, 2});
  CHECK(number_of(data->train_inputs, 2) == 1.5f);
  CHECK(number_of(data->train_inputs, 3) == -1000);
  std::string prices = "a,price\n";
  for (int k = 0; k < 20; ++k)
    prices += "1," + std::to_string(k) + ".25\n";
  const auto regression = read_own_data(scratch.file("prices.csv", prices));
  REQUIRE(regression);
  CHECK_FALSE(regression->has_classes());

  const auto complaint = [&](const std::string& text) {
    return refused(scratch.file("bad.csv", text));
  };
  CHECK_THAT(complaint("a,b\n1,2\n"), Contains("bad.csv has 1 samples, accepted: 10 or more"));
  CHECK_THAT(complaint("a,b\nnan,2\n"), Contains("bad.csv, line 2"));
}

namespace {

std::vector<float> floats_of(const StoredTensor& t) {
  std::vector<float> values(t.bytes.size() / sizeof(float));
  std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
  return values;
}

/// Bytes of numbers in the other order.
template <class T>
Array swapped(Array a) {
  for (size_t k = 0; k < a.data.size(); k += sizeof(T))
    std::reverse(a.data.begin() + static_cast<std::ptrdiff_t>(k),
                 a.data.begin() + static_cast<std::ptrdiff_t>(k + sizeof(T)));
  a.type[0] = '>';
  return a;
}

}  // namespace

TEST_CASE("an npz file may have its numbers in any order and type, and arrays that nobody needs") {
  const Scratch scratch;
  const auto read = [&](std::vector<Array> arrays) {
    auto data = read_own_data(scratch.file("own.npz", npz(arrays)));
    if (!data) FAIL(data.error().message);
    return std::move(*data);
  };
  const std::vector<float> inputs{1, 2, 3, 4, 5, 6};
  std::vector<Array> arrays = four();
  arrays[0] = swapped<float>(arrays[0]);
  arrays[3] = swapped<int64_t>(arrays[3]);
  CHECK(floats_of(read(arrays).train_inputs) == inputs);
  arrays = four();
  arrays[0] = array<float>("train_inputs", "<f4", "(3, 2)", {1, 3, 5, 2, 4, 6});
  arrays[0].by_columns = true;
  CHECK(floats_of(read(arrays).train_inputs) == inputs);
  arrays[0] = array<uint16_t>("train_inputs", "<f2", "(3L, 2L)",
                              {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600});
  CHECK(floats_of(read(arrays).train_inputs) == inputs);
  arrays = four();
  arrays[1] = array<uint64_t>("train_targets", "<u8", "(3, 1)", {0, 2, 1});
  arrays.push_back(array<uint32_t>("class_names", "<U1", "(3,)", {97, 98, 99}));
  arrays.push_back({"meta", "|O", "()", {0x80, 4, '.'}, false});
  arrays.push_back({"table", "[('a', '<f4'), ('b', '<i8')]", "(1,)", Bytes(12), false});
  arrays.insert(arrays.begin(), array<float>(std::string(200, 'n'), "<f4", "(1,)", {1}));
  CHECK(read(arrays).classes == 3);
  arrays.erase(arrays.begin());
  arrays[0] = array<uint32_t>("train_inputs", "<U1", "(3, 2)", {97, 98, 99, 97, 98, 99});
  CHECK_THAT(refused(scratch.file("own.npz", npz(arrays))),
             Contains("array train_inputs is of type \"<U1\", accepted"));
  arrays[0] = array<float>("X_train", "<f4", "(3, 2)", inputs);
  arrays[1].name = "y_train";
  arrays[2].name = "testImages";
  arrays[3].name = "test_labels";
  CHECK_THAT(read(arrays).description(), Contains("inputs \"X_train\", targets \"y_train\""));
}

TEST_CASE("whole numbers are classes where they can be learnt, and what they are is told") {
  const Scratch scratch;
  const auto read = [&](size_t rows, auto target, const std::string& loss = "auto") {
    std::string text = "a,label\n";
    for (size_t k = 0; k < rows; ++k)
      text += std::to_string(k % 7) + "," + target(k) + "\n";
    auto data = read_own_data(scratch.file("own.csv", text), loss);
    if (!data) FAIL(data.error().message);
    return std::move(*data);
  };
  const auto modulo = [](size_t m) { return [m](size_t k) { return std::to_string(k % m); }; };
  const auto price = [](size_t k) { return std::to_string(20000 + 130 * (k % 5)); };
  CHECK(read(60, modulo(3)).classes == 3);
  CHECK(read(700, modulo(300)).classes == 300);
  CHECK_FALSE(read(60, price).has_classes());
  CHECK(read(60, price).outputs == 1);
  CHECK(read(60, price, "cross_entropy").classes == 20521);
  CHECK_FALSE(read(60, modulo(3), "mse").has_classes());
  CHECK(read(60, [](size_t k) { return k % 2 ? "-1" : "+1"; }).classes == 2);
  CHECK(read(60, [](size_t k) { return k % 2 ? "cat" : "dog"; }).classes == 2);
  CHECK(read(700, [](size_t k) { return "c" + std::to_string(k % 650); }).classes == 650);
  CHECK_FALSE(read(60, [](size_t k) { return k % 2 ? "-2" : "1"; }).has_classes());
  const auto sentiment = read(60, [](size_t k) { return std::to_string(int(k % 3) - 1); });
  CHECK(sentiment.classes == 3);
  CHECK_THAT(sentiment.description(), Contains("; the classes are \"-1\", \"0\", \"1\" ("));
  CHECK_FALSE(read(700, [](size_t k) { return std::to_string(int(k % 40) - 10); }).has_classes());
  CHECK(read(60, [](size_t k) { return std::to_string(k % 3 + 1) + ".0"; }).classes == 4);
  CHECK(read(60, [](size_t k) { return k % 2 ? "5" : "9"; }).classes == 10);
  CHECK(read(60, [](size_t k) { return k % 2 ? "True" : "False"; }).classes == 2);

  CHECK_THAT(read(60, modulo(3)).description(),
             Contains("samples of [1], 3 classes; target \"label\", inputs \"a\""));
  CHECK_THAT(read(60, price).description(), Contains("1 number to predict; target \"label\""));
  CHECK_THAT(refused(scratch.file("own.csv", "a,label\n1,x\n"), "mse"),
             Contains("names of classes, accepted: cross_entropy"));
  std::string half = "a,label\n";
  for (int k = 0; k < 20; ++k)
    half += "1,0.5\n";
  std::string one = "a,label\n";
  for (int k = 0; k < 20; ++k)
    one += "1,0\n";
  CHECK_THAT(refused(scratch.file("one.csv", one)),
             Contains("one.csv: targets has one class alone, accepted: two or more, or loss mse"));
  CHECK_THAT(refused(scratch.file("own.csv", half), "cross_entropy"),
             Contains("targets has 0.5 in sample 0, with loss cross_entropy, accepted"));
}

TEST_CASE("samples that cannot be trained on are refused with the tensor and what is accepted") {
  const Scratch scratch;
  const auto complaint = [&](auto change) {
    std::vector<Array> arrays = four();
    change(arrays);
    return refused(scratch.file("own.npz", npz(arrays)), "cross_entropy");
  };
  using Arrays = std::vector<Array>;
  CHECK_THAT(complaint([](Arrays& a) { a[0].name = "images"; }),
             Contains("accepted: train_inputs"));
  CHECK_THAT(complaint([](Arrays& a) { a.pop_back(); }), Contains("accepted: train_inputs"));
  CHECK_THAT(complaint([](Arrays& a) {
               a[1] = array<int64_t>("train_targets", "<i8", "(2,)", {0, 1});
             }),
             Contains("as many of both"));
  CHECK_THAT(complaint([](Arrays& a) {
               a[1] = array<int64_t>("train_targets", "<i8", "(3,)", {0, -1, 1});
             }),
             Contains("targets has -1 in sample 1"));
  CHECK_THAT(complaint([](Arrays& a) {
               a[1] = array<int64_t>("train_targets", "<i8", "(3,)", {0, 1 << 20, 1});
             }),
             Contains("targets has 1048576 in sample 1"));
  CHECK_THAT(complaint([](Arrays& a) {
               a[2] = array<double>("test_inputs", "<f8", "(1, 3)", {7, 8, 9});
             }),
             Contains("another shape"));
  CHECK_THAT(complaint([](Arrays& a) {
               a[0] = array<float>("train_inputs", "<f4", "(3,)", {1, 2, 3});
             }),
             Contains("[samples, ...]"));
  CHECK_THAT(complaint([](Arrays& a) {
               a[0] = array<float>("train_inputs", "<f4", "(3, 2)", {1, 2, 3, NAN, 5, 6});
             }),
             Contains("not finite in sample 1"));
  CHECK_THAT(complaint([](Arrays& a) { a[0] = array<float>("train_inputs", "<f4", "(0, 2)", {}); }),
             Contains("no samples"));
  CHECK_THAT(refused(scratch.path("nowhere.npz")), Contains("nowhere.npz"));
}

}  // namespace grapevine
