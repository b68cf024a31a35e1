#include "tests/models/tools.hpp"

#include <lzma.h>
#include <stdlib.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"
#include "tests/skipped.hpp"

namespace grapevine::test {
namespace {

namespace fs = std::filesystem;

void put_big_endian(Bytes& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<uint8_t>(value >> shift));
}

}  // namespace

Scratch::Scratch() {
  std::string name = (fs::temp_directory_path() / "grapevine-test-XXXXXX").string();
  GV_CHECK(mkdtemp(name.data()) != nullptr);
  folder_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Scratch::path(const std::string& name) const {
  return name.empty() ? folder_ : folder_ + "/" + name;
}

std::string Scratch::file(const std::string& name, const Bytes& content) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  std::ofstream out(path(name), std::ios::binary);
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
  return path(name);
}

std::string Scratch::file(const std::string& name, const std::string& content) const {
  return file(name, Bytes(content.begin(), content.end()));
}

Bytes gzipped(const Bytes& content) {
  z_stream stream{};
  GV_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes packed(deflateBound(&stream, content.size()) + 64);
  stream.next_in = const_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  GV_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Bytes xzipped(const Bytes& content) {
  Bytes packed(lzma_stream_buffer_bound(content.size()));
  size_t used = 0;
  GV_CHECK(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, content.data(), content.size(),
                                   packed.data(), &used, packed.size()) == LZMA_OK);
  packed.resize(used);
  return packed;
}

Bytes read_raw(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Bytes idx_images(uint32_t count, uint32_t rows, uint32_t columns) {
  Bytes out;
  for (const uint32_t word : {uint32_t{2051}, count, rows, columns})
    put_big_endian(out, word);
  for (uint32_t k = 0; k < count * rows * columns; ++k)
    out.push_back(k % 251);
  return out;
}

Bytes idx_labels(const std::vector<uint8_t>& labels) {
  Bytes out;
  put_big_endian(out, 2049);
  put_big_endian(out, static_cast<uint32_t>(labels.size()));
  out.insert(out.end(), labels.begin(), labels.end());
  return out;
}

void write_optdigits(const Scratch& scratch, int train, int test) {
  Random random(5, 0, Purpose::test);
  for (const auto& [name, lines] : {std::pair("optdigits.tra", train), {"optdigits.tes", test}}) {
    std::string text;
    for (int line = 0; line < lines; ++line) {
      const uint32_t label = random.below(10);
      for (uint32_t pixel = 0; pixel < 64; ++pixel) {
        const bool dark = pixel % 10 == label || pixel / 6 == label;
        text += std::to_string((dark ? 10 : 0) + random.below(7)) + ",";
      }
      text += std::to_string(label) + "\n";
    }
    scratch.file(name, text);
  }
}

std::string real_data(const std::string& wanted_for) {
  const char* named = std::getenv("GRAPEVINE_TEST_DATA");
  const fs::path folder = named ? named : GRAPEVINE_SOURCE_DIR "/../shared/data";
  std::error_code unreadable;
  if (fs::is_directory(folder, unreadable)) return fs::canonical(folder).string();
  skipped("no data sets in " + folder.string() + " (GRAPEVINE_TEST_DATA names a folder), so " +
          wanted_for + " is not checked");
  return {};
}

}  // namespace grapevine::test
