#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "kernels/base/random.hpp"
#include "kernels/base/write_file.hpp"
#include "models/files/tensor_file.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"
#include "tests/skipped.hpp"

namespace grapevine {
namespace {

using test::Scratch;

/// Two matrices, a vector, tensors without elements, and the counter that a batch norm has.
struct Example {
  ParameterLayout layout{DType::f32};
  std::vector<float> x;
  int64_t counter = 41;

  Example() {
    layout.add("a.weight", {3, 2}, true);
    layout.add("a.bias", {3}, true);
    layout.add("b.weight", {2, 1, 3, 3}, true);
    layout.add("c.weight", {0, 4}, true);
    layout.add("d.weight", {4, 0, 2}, true);
    for (size_t k = 0; k < layout.size(); ++k)
      x.push_back(0.5f * static_cast<float>(k) - 3);
  }
  ConstVec vec() const { return {x.data(), x.size(), DType::f32}; }
  std::vector<ModelTensor> tensors() const {
    auto all = tensors_of(layout, vec());
    all.push_back({"b.num_batches_tracked", {}, TensorType::i64, &counter});
    return all;
  }
};

std::vector<std::string> files_in(const Scratch& scratch) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    names.push_back(entry.path().filename());
  }
  return names;
}

/// Files of this process may not grow beyond so many bytes: as a full disk, without one.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace

TEST_CASE("Python opens both model files, or its absence is said aloud") {
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) {
    return test::skipped("no python3, so it did not open the model files");
  }
  const Scratch scratch;
  const Example example;
  REQUIRE(write_safetensors(scratch.path("model.safetensors"), example.tensors()));
  REQUIRE(write_state_dict(scratch.path("model.pt"), example.tensors()));
  const std::string command = "PYTHONPATH=" GRAPEVINE_SOURCE_DIR
                              "/.deps/modules:$PYTHONPATH "
                              "python3 " GRAPEVINE_SOURCE_DIR "/tests/models/files_test.py ";
  CHECK(std::system((command + scratch.path()).c_str()) == 0);
}

TEST_CASE("A safetensors file comes back bit by bit") {
  const Scratch scratch;
  const Example example;
  const std::string path = scratch.path("m");
  REQUIRE(write_safetensors(path, example.tensors()));
  const auto stored = read_tensors(path);
  REQUIRE(stored);
  REQUIRE(stored->size() == 6);
  CHECK((*stored)[2].name == "b.weight");
  CHECK((*stored)[2].shape == std::vector<int64_t>{2, 1, 3, 3});
  CHECK((*stored)[5].shape.empty());
  CHECK(std::memcmp((*stored)[5].bytes.data(), &example.counter, 8) == 0);
  std::vector<float> back(example.x.size());
  REQUIRE(load_parameters(path, example.layout, {back.data(), back.size(), DType::f32}));
  CHECK(back == example.x);
}

TEST_CASE("Tensors with a side of 0, and of every type of PyTorch's, are written and read") {
  const Scratch scratch;
  const std::vector<double> zeros(2, 0.0);
  std::vector<ModelTensor> tensors;
  for (const TensorTypeNames& type : tensor_types())
    if (*type.torch_storage != '\0')
      tensors.push_back({type.in_torch, {2}, type.type, zeros.data()});
  tensors.push_back({"empty", {0, 4}, TensorType::f32, zeros.data()});
  tensors.push_back({"empty too", {3, 0, 2}, TensorType::f64, zeros.data()});
  REQUIRE(write_safetensors(scratch.path("model.safetensors"), tensors));
  REQUIRE(write_state_dict(scratch.path("model.pt"), tensors));
  for (const char* name : {"model.safetensors", "model.pt"}) {
    const auto stored = read_tensors(scratch.path(name));
    if (!stored) FAIL(stored.error().message);
    REQUIRE(stored->size() == tensors.size());
    for (size_t k = 0; k < tensors.size(); ++k) {
      CHECK((*stored)[k].name == tensors[k].name);
      CHECK((*stored)[k].type == tensors[k].type);
      CHECK((*stored)[k].shape == tensors[k].shape);
      CHECK((*stored)[k].bytes.size() == tensors[k].bytes());
    }
  }
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0)
    return test::skipped("no python3, so it did not open the model files");
  CHECK(
      std::system(("python3 " GRAPEVINE_SOURCE_DIR "/tests/models/files_test.py " + scratch.path())
                      .c_str()) == 0);
}

TEST_CASE("Parameters of another shape or name are refused and leave the vector as it was") {
  const Scratch scratch;
  const Example example;
  const std::string path = scratch.path("m");
  REQUIRE(write_safetensors(path, example.tensors()));
  ParameterLayout turned(DType::f32), renamed(DType::f32);
  turned.add("a.bias", {3}, true);
  turned.add("a.weight", {2, 3}, true);
  renamed.add("c", {2}, true);
  std::vector<float> x(9, 7.0f);
  const auto turned_status = load_parameters(path, turned, {x.data(), 9, DType::f32});
  REQUIRE(!turned_status);
  CHECK(turned_status.error().message ==
        path + ": tensor a.weight has shape [3, 2] of 4-byte numbers, accepted: [2, 3] of 4");
  const auto renamed_status = load_parameters(path, renamed, {x.data(), 2, DType::f32});
  REQUIRE(!renamed_status);
  CHECK(renamed_status.error().message == path + " has no tensor c of shape [2]");
  CHECK(x == std::vector<float>(9, 7.0f));
}

TEST_CASE("A cut or flipped safetensors file gives an error or tensors of the announced size") {
  const Scratch scratch;
  const Example example;
  REQUIRE(write_safetensors(scratch.path("m"), example.tensors()));
  const Bytes good = test::read_raw(scratch.path("m"));
  Random random(3, 0, Purpose::test);
  int refused = 0;
  for (int trial = 0; trial < 600; ++trial) {
    Bytes bytes = good;
    if (trial % 2 == 0) {
      bytes.resize(random.below(static_cast<uint32_t>(bytes.size())));
    } else {
      bytes[random.below(static_cast<uint32_t>(bytes.size()))] ^= 1 << random.below(8);
    }
    const auto stored = read_tensors(scratch.file("damaged", bytes));
    if (!stored) {
      ++refused;
      const std::string& why = stored.error().message;
      CHECK((why.find("damaged") != why.npos || why.find("is of type") != why.npos));
      continue;
    }
    for (const StoredTensor& tensor : *stored) {
      const ModelTensor like{tensor.name, tensor.shape, tensor.type, nullptr};
      CHECK(tensor.bytes.size() == like.bytes());
    }
  }
  CHECK(refused > 350);
}

TEST_CASE("A state dict comes back bit by bit, and damaged it is an error or tensors") {
  const Scratch scratch;
  const Example example;
  const std::string path = scratch.path("m.pt");
  REQUIRE(write_state_dict(path, example.tensors()));
  const auto stored = read_tensors(path);
  REQUIRE(stored);
  REQUIRE(stored->size() == 6);
  for (size_t k = 0; k < 6; ++k) {
    const ModelTensor wanted = example.tensors()[k];
    CHECK((*stored)[k].name == wanted.name);
    CHECK((*stored)[k].shape == wanted.shape);
    CHECK((*stored)[k].type == wanted.type);
    REQUIRE((*stored)[k].bytes.size() == wanted.bytes());
    const auto* const data = static_cast<const uint8_t*>(wanted.data);  // null of an empty tensor
    CHECK(std::equal((*stored)[k].bytes.begin(), (*stored)[k].bytes.end(), data));
  }
  const Bytes good = test::read_raw(path);
  Random random(4, 0, Purpose::test);
  int refused = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Bytes bytes = good;
    if (trial % 4 == 0) {
      bytes.resize(random.below(static_cast<uint32_t>(bytes.size())));
    } else {
      bytes[random.below(static_cast<uint32_t>(bytes.size()))] ^= 1 << random.below(8);
    }
    const auto read = read_tensors(scratch.file("damaged", bytes));
    refused += !read;
    if (!read) continue;
    for (const StoredTensor& tensor : *read) {
      const ModelTensor like{tensor.name, tensor.shape, tensor.type, nullptr};
      CHECK(tensor.bytes.size() == like.bytes());
    }
  }
  CHECK(refused > 500);
}

namespace {

// A file with this header, and so many bytes behind it.
Bytes with_header(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  Bytes file(sizeof length + header.size() + data_bytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  return file;
}

std::string tensor(const std::string& name, const std::string& shape, size_t first, size_t last) {
  return "\"" + name + R"(":{"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)" +
         std::to_string(first) + "," + std::to_string(last) + "]}";
}

}  // namespace

TEST_CASE("A hostile safetensors header is an error: bytes given twice, names twice, overflows") {
  const std::string good = "{" + tensor("a", "2", 0, 8) + "," + tensor("b", "2", 8, 16) + "}";
  REQUIRE(parse_safetensors("m", with_header(good, 16)));
  std::string bytes_twice = "{" + tensor("a", "4", 0, 16), nested = "{\"a\":";
  for (int k = 0; k < 1000; ++k)
    bytes_twice += "," + tensor("b" + std::to_string(k), "4", 0, 16);
  nested += std::string(100000, '[');
  // 2^47 2^47 2^47 2^47 4 is 0, and 2^33 2^33 4 + 0 is 0 modulo 2^64.
  const std::string huge = "140737488355328,140737488355328,140737488355328,140737488355328";
  for (const std::string& header :
       {bytes_twice + "}", "{" + tensor("a", "2", 0, 8) + "," + tensor("a", "2", 8, 16) + "}",
        "{" + tensor("a", huge, 0, 0) + "}", "{" + tensor("a", "8589934592,8589934592", 0, 0) + "}",
        "{" + tensor("a", "2", 8, 0) + "}", "{" + tensor("a", "2", 16, 24) + "}", nested,
        std::string("{\"a\\"), std::string("{\"a\\u00"), std::string("{\"\\ud83d\":{}}"),
        std::string("{\"a\":{}}"), std::string("{"), std::string()}) {
    INFO(header.substr(0, 200));
    CHECK_FALSE(parse_safetensors("m", with_header(header, 16)));
  }
  Bytes longer = with_header("{}", 0);
  longer[7] = 0xff;
  CHECK_FALSE(parse_safetensors("m", longer));
  const auto empty =
      parse_safetensors("m", with_header("{" + tensor("a", huge + ",0", 0, 0) + "}", 0));
  REQUIRE(empty);
  CHECK(empty->front().bytes.empty());
}

TEST_CASE("A tensor may have any name") {
  const Scratch scratch;
  const std::string name = "it's \"a\"\\b\n\t";
  const float one = 1;
  REQUIRE(write_safetensors(scratch.path("m"), {{name, {1}, TensorType::f32, &one}}));
  const auto stored = read_tensors(scratch.path("m"));
  REQUIRE(stored);
  CHECK(stored->front().name == name);
}

TEST_CASE("A file that cannot be finished leaves nothing behind, and an older one as it was") {
  const Scratch scratch;
  const std::string path = scratch.path("m");
  const std::vector<char> large(100000, 'x');
  Status status = Done{};
  {
    const SmallDisk disk(50000);
    status = write_whole_file(path, {{large.data(), large.size()}});
  }
  REQUIRE(!status);
  CHECK(status.error().message == "cannot write " + path + ": File too large");
  CHECK(status.error().exit_status() == 1);
  CHECK(files_in(scratch).empty());

  REQUIRE(write_whole_file(path, {{"old", 3}}));
  {
    const SmallDisk disk(50000);
    status = write_whole_file(path, {{large.data(), large.size()}});
  }
  CHECK(!status);
  CHECK(test::read_raw(path) == Bytes{'o', 'l', 'd'});
  CHECK(files_in(scratch) == std::vector<std::string>{"m"});
}

TEST_CASE("A folder that is not there is named") {
  const Status status = write_whole_file("/no/such/folder/m", {});
  REQUIRE(!status);
  CHECK(status.error().message == "cannot write /no/such/folder/m: No such file or directory");
}

}  // namespace grapevine
