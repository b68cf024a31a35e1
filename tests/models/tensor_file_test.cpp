// Files of tensors as other programs write them, and as nobody should.
#include "models/files/tensor_file.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "kernels/base/memory_left.hpp"
#include "models/files/pickle.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"
#include "tests/skipped.hpp"

namespace grapevine {
namespace {

using Catch::Contains;
using test::Scratch;

std::vector<double> numbers_of(const StoredTensor& tensor) {
  const size_t count = tensor.bytes.size() / size_of(tensor.type);
  std::vector<double> numbers(count);
  copy_numbers(tensor, Vec(numbers.data(), count, DType::f64));
  return numbers;
}

std::vector<double> read(const TensorFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  INFO(name);
  REQUIRE(info != nullptr);
  const auto tensor = file.read(*info);
  if (!tensor) FAIL(tensor.error().message);
  return numbers_of(*tensor);
}

std::string refusal(const std::string& path) {
  const auto file = TensorFile::open(path);
  REQUIRE_FALSE(file);
  CHECK(file.error().message.find('\n') == std::string::npos);
  return file.error().message;
}

std::string refusal(const TensorFile& file, const std::string& name) {
  REQUIRE(file.find(name) != nullptr);
  const auto tensor = file.read(*file.find(name));
  REQUIRE_FALSE(tensor);
  return tensor.error().message;
}

/// A safetensors file of one tensor, "a", of `data`.
std::string one_tensor(const Scratch& scratch, const std::string& type, const std::string& shape,
                       const Bytes& data) {
  const std::string header = R"({"a":{"dtype":")" + type + R"(","shape":)" + shape +
                             R"(,"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
  const uint64_t length = header.size();
  Bytes file(sizeof length);
  std::memcpy(file.data(), &length, sizeof length);
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), data.begin(), data.end());
  return scratch.file("one.safetensors", file);
}

}  // namespace

TEST_CASE("Every type of number in a safetensors file is read") {
  const Scratch scratch;
  const std::vector<std::tuple<std::string, Bytes, double>> kinds = {
      {"F32", {0, 0, 0x20, 0xc0}, -2.5},
      {"F64", {0, 0, 0, 0, 0, 0, 4, 0xc0}, -2.5},
      {"F16", {0, 0xc1}, -2.5},
      {"BF16", {0x20, 0xc0}, -2.5},
      {"F8_E4M3", {0xc2}, -2.5},
      {"F8_E5M2", {0xc1}, -2.5},
      {"I64", {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2},
      {"I32", {0xfe, 0xff, 0xff, 0xff}, -2},
      {"I16", {0xfe, 0xff}, -2},
      {"I8", {0xfe}, -2},
      {"U64", {0, 0, 0, 0, 0, 0, 0, 0x80}, 9223372036854775808.0},
      {"U32", {0, 0, 0, 0x80}, 2147483648.0},
      {"U16", {0, 0x80}, 32768},
      {"U8", {0x80}, 128},
      {"BOOL", {1}, 1}};
  for (const auto& [type, bytes, value] : kinds) {
    INFO(type);
    const auto file = TensorFile::open(one_tensor(scratch, type, "[1]", bytes));
    REQUIRE(file);
    CHECK(read(*file, "a") == std::vector<double>{value});
  }
  // The smallest, the largest and no number of the narrow ones.
  const auto e4m3 =
      TensorFile::open(one_tensor(scratch, "F8_E4M3", "[4]", {0x01, 0x7e, 0x80, 0x7f}));
  const std::vector<double> narrow = read(*e4m3, "a");
  CHECK(narrow[0] == std::ldexp(1, -9));
  CHECK(narrow[1] == 448);
  CHECK(narrow[2] == 0);
  CHECK(std::isnan(narrow[3]));
}

TEST_CASE("A type that nobody knows is told by who asks for the tensor, and troubles nobody else") {
  const Scratch scratch;
  const auto file = TensorFile::open(one_tensor(scratch, "C64", "[1]", Bytes(8)));
  REQUIRE(file);
  CHECK_THAT(refusal(*file, "a"), Contains("one.safetensors: tensor a is of type C64, accepted"));
  const std::string more =
      R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"new":[{"b":1}]}})";
  const uint64_t length = more.size();
  Bytes bytes(sizeof length);
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes.insert(bytes.end(), more.begin(), more.end());
  const auto later = TensorFile::open(scratch.file("later.safetensors", bytes));
  REQUIRE(later);
  CHECK(read(*later, "a").empty());
}

TEST_CASE("A size that a file only announces is not believed, and what is no file is not opened") {
  const Scratch scratch;
  // Of 900 GB nothing is there: memory is asked for once somebody wants the tensor, and not had.
  const uint64_t huge = uint64_t{900} << 30;
  const std::string header = R"({"a":{"dtype":"F32","shape":[)" + std::to_string(huge / 4) +
                             R"(],"data_offsets":[0,)" + std::to_string(huge) + "]}}";
  const uint64_t length = header.size();
  Bytes bytes(sizeof length);
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes.insert(bytes.end(), header.begin(), header.end());
  const std::string sparse = scratch.file("sparse.safetensors", bytes);
  REQUIRE(::truncate(sparse.c_str(), static_cast<off_t>(bytes.size() + huge)) == 0);
  const auto file = TensorFile::open(sparse);
  REQUIRE(file);
  if (memory_left() < huge) CHECK_THAT(refusal(*file, "a"), Contains("bytes of memory, of which"));

  const std::string nothing = scratch.file("nothing", "");
  REQUIRE(::truncate(nothing.c_str(), static_cast<off_t>(huge)) == 0);
  CHECK_THAT(refusal(nothing), Contains("nothing"));
  REQUIRE(::mkfifo(scratch.path("pipe").c_str(), 0600) == 0);
  CHECK_THAT(refusal(scratch.path("pipe")), Contains("a device or a pipe, accepted: a file"));
  CHECK_THAT(refusal(scratch.path()), Contains("a folder, accepted: a file"));
  CHECK_THAT(refusal("/dev/zero"), Contains("a device or a pipe"));
  CHECK_THAT(refusal(scratch.path("nowhere")), Contains("No such file"));
}

TEST_CASE("A file of another kind is not called a cut file of a kind that it never was") {
  const Scratch scratch;
  CHECK_THAT(refusal(scratch.file("a.npz", "")), Contains("a.npz is empty, accepted: "));
  for (const std::string text :
       {"<!DOCTYPE html><html>404</html>", "version https://git-lfs.github.com/spec/v1\n",
        "\x93NUMPY\x01 an array by itself", "\x89HDF\r\n\x1a\n of Keras"})
    for (const char* name : {"a.npz", "a.pt", "a.safetensors"}) {
      const std::string line = refusal(scratch.file(name, text));
      CHECK_THAT(line, Contains("does not begin as a file of tensors, accepted: a .safetensors"));
      CHECK_THAT(line, !Contains("cut"));
    }
  CHECK_THAT(refusal(scratch.file("a.safetensors", "\x10")), Contains("cut"));
  // pickle.dump({}), which torch.save does not write.
  const std::string line = refusal(scratch.file("a.pkl", "\x80\x03}q\x01."));
  CHECK_THAT(line, Contains("it is one pickle, accepted: a file of torch.save"));
}

TEST_CASE(
    "What torch.save writes is read, all types, protocols and both forms, and nothing is run") {
  const Scratch scratch;
  const std::string command =
      "python3 " GRAPEVINE_SOURCE_DIR "/tests/models/torch_files.py " + scratch.path();
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0)
    return test::skipped("no python3, so no files of torch.save's kind were made");
  REQUIRE(std::system(command.c_str()) == 0);
  const auto opened = [&](const std::string& name) {
    auto file = TensorFile::open(scratch.path(name));
    if (!file) FAIL(file.error().message);
    return std::move(*file);
  };
  using Numbers = std::vector<double>;
  for (const std::string name : {"kinds.pt", "packed.pt"}) {
    INFO(name);
    const TensorFile kinds = opened(name);
    CHECK(read(kinds, "half") == Numbers{0.5, -2, std::ldexp(1, -24)});
    CHECK(read(kinds, "brain") == Numbers{1, -2});
    CHECK(read(kinds, "double") == Numbers{0.1});
    CHECK(read(kinds, "int") == Numbers{-3, 4});
    CHECK(read(kinds, "short") == Numbers{-5});
    CHECK(read(kinds, "char") == Numbers{-6});
    CHECK(read(kinds, "byte") == Numbers{200});
    CHECK(read(kinds, "bool") == Numbers{1, 0});
    CHECK(read(kinds, "long") == Numbers{7});
    CHECK(read(kinds, "empty").empty());
    CHECK(read(kinds, "turned") == Numbers{0, 3, 1, 4, 2, 5});
    CHECK(read(kinds, "row") == Numbers{3, 4, 5});
    CHECK(read(kinds, "repeated") == Numbers{5, 5, 5, 5});
    CHECK(read(kinds, "parameter") == Numbers{11});
    CHECK(read(kinds, "third") == Numbers{65535, 1});
    CHECK(kinds.find("empty")->shape == std::vector<int64_t>{0, 4});
  }
  for (const std::string name :
       {"protocol1.pt", "protocol2.pt", "protocol3.pt", "protocol4.pt", "protocol5.pt", "legacy.pt",
        "training.pt", "training4.pt", "others.pt"}) {
    INFO(name);
    const TensorFile file = opened(name);
    CHECK(read(file, "fc.weight") == Numbers{1, 2, 3, 4, 5, 6});
    CHECK(read(file, "fc.bias") == Numbers{7, 8, 9});
  }
  const TensorFile others = opened("others.pt");
  CHECK_THAT(refusal(others, "complex"), Contains("is of torch ComplexFloatStorage, accepted"));
  CHECK_THAT(refusal(others, "sparse"), Contains("is of _rebuild_sparse_tensor, accepted"));
  CHECK_THAT(refusal(scratch.path("object.pt")), Contains("holds a torch Own, accepted: a dict"));
  CHECK_THAT(refusal(scratch.path("list.pt")), Contains("no dict of tensors, accepted: a dict"));
  CHECK_THAT(refusal(scratch.path("nothing.pt")), Contains("no dict of tensors"));
  CHECK_THAT(refusal(scratch.path("two.pt")),
             Contains("holds 2 dicts of tensors, accepted: a dict"));
}

namespace {

/// The error of a pickle; empty: it is read.
std::string complaint_of(const std::string& pickle) {
  const auto* const first = reinterpret_cast<const uint8_t*>(pickle.data());
  size_t at = 0;
  const Pickle read({first, pickle.size()}, at);
  CHECK(at <= pickle.size());
  CHECK(read.value().has_value() == read.complaint().empty());
  return read.complaint();
}

std::string times(size_t count, const std::string& text) {
  std::string all;
  for (size_t k = 0; k < count; ++k)
    all += text;
  return all;
}

}  // namespace

TEST_CASE("A pickle takes no more memory than a multiple of its bytes, whatever it repeats") {
  const auto most_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most_kib();
  // A name made of itself, twice as long each time.
  const std::string text = "\x80\x04X\x02" + std::string(3, '\0') + "AAq" + std::string(1, '\0');
  const std::string twice = std::string("h\0h\0\x93q\0", 7);
  CHECK(complaint_of(text + times(60, twice) + ".").empty());
  // A tuple of a million references, handed to a hundred thousand calls.
  const std::string tuple =
      "\x80\x04"
      "ctorch._utils\n_rebuild_tensor_v2\nq\x01K\x01q\x02(" +
      times(1000000, "h\x02") + "tq\x03";
  CHECK(complaint_of(tuple + times(100000, "h\x01h\x03R0") + ".").empty());
  CHECK_THAT(complaint_of(times(40000000, "N")), Contains("too large"));
  CHECK_THAT(complaint_of(times(8000000, "}") + "."), Contains("too large"));
  CHECK_THAT(complaint_of(times(2000000, "(") + times(3000000, "t")), Contains("damaged"));
  CHECK(complaint_of("]" + times(1000000, "]a") + ".").empty());  // a million deep
  CHECK(most_kib() - before < 2 << 20);
}

TEST_CASE("A pickle that is no pickle is a complaint") {
  for (const std::string bad : {"",
                                "(",
                                "t",
                                "0",
                                "s",
                                "u.",
                                "}(K\1u.",
                                "R.",
                                "h\x05.",
                                "X\xff\xff\xff\xff",
                                "\x8e\1",
                                "c\n",
                                "\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
                                "\x97.",
                                "Q.",
                                "o.",
                                "b.",
                                "a.",
                                "e.",
                                "\x93.",
                                "g9\n.",
                                "I99999999999999999999999\n"}) {
    INFO(bad);
    CHECK(!complaint_of(bad).empty());
  }
  CHECK(complaint_of("(S'a'\nI01\nI-7\nL12L\nF2.5\nV\xc3\xa9\nlp0\ng0\n1.").size() > 0);
  CHECK(complaint_of("(S'a'\nI01\nI-7\nL12L\nF2.5\nlp0\n0g0\n.").empty());
}

}  // namespace grapevine
