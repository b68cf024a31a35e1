#include "app/metrics/event_file.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "kernels/base/spec.hpp"

namespace grapevine {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t k = 0; k < 256; ++k) {
    uint32_t crc = k;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    table[k] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

template <class Number>
std::string little_endian(Number value) {  // the order of this machine
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// --- Protocol Buffers: a field is its number << 3 | its wire type, and its value.

enum EventWire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

std::string key(uint32_t field, EventWire wire) { return varint(field << 3 | wire); }
std::string number(uint32_t field, uint64_t value) { return key(field, kVarint) + varint(value); }
std::string real(uint32_t field, double value) {
  return key(field, kFixed64) + little_endian(value);
}
std::string single(uint32_t field, float value) {
  return key(field, kFixed32) + little_endian(value);
}
std::string bytes(uint32_t field, const std::string& value) {
  return key(field, kBytes) + varint(value.size()) + value;
}

// Event, and its parts.
std::string wall_time(double value) { return real(1, value); }
std::string step_of(uint64_t value) { return number(2, value); }
std::string file_version(const char* value) { return bytes(3, value); }
std::string summary(const std::string& values) { return bytes(5, values); }
std::string value_of(const std::string& tag, const std::string& rest) {
  return bytes(1, bytes(1, tag) + rest);
}
std::string simple_value(float value) { return single(2, value); }
std::string plugin(const char* name, const std::string& content) {
  return bytes(9, bytes(1, bytes(1, name) + bytes(2, content)));
}

// google.protobuf.Value: a number, a boolean or a text.
std::string value_of_text(const std::string& text) {
  if (text == "true" || text == "false") return number(4, text == "true");
  if (const auto parsed = number_of<double>(text); parsed && std::isfinite(*parsed))
    return real(2, *parsed);
  return bytes(3, text);
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string record(const std::string& event) {
  const auto masked = [](const std::string& text) {
    const uint32_t crc = crc32c(text);
    return little_endian((crc >> 15 | crc << 17) + 0xa282ead8u);
  };
  const std::string length = little_endian(uint64_t{event.size()});
  return length + masked(length) + event + masked(event);
}

}  // namespace

uint32_t crc32c(const std::string& bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

Result<EventFile> EventFile::make(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return world_error(fmt::format("cannot make {}: {}", folder, failed.message()));
  char host[64] = "host";
  gethostname(host, sizeof host - 1);
  const std::string path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}", folder,
                                       static_cast<uint64_t>(now_s()), host, getpid());
  auto file = GrowingFile::make(path);
  if (!file) return world_error(fmt::format("cannot write {}: {}", path, file.error().message));
  EventFile made(std::move(*file));
  const Status begun =
      made.file_.append(record(wall_time(now_s()) + file_version("brain.Event:2")));
  if (!begun) return begun.error();
  return made;
}

Status EventFile::add(uint64_t step, const std::string& field) {
  return file_.append(record(wall_time(now_s()) + step_of(step) + field));
}

Status EventFile::scalars(uint64_t step, const Scalars& scalars) {
  std::string values;
  for (const auto& [tag, value] : scalars)
    if (std::isfinite(value)) values += value_of(tag, simple_value(static_cast<float>(value)));
  return values.empty() ? Status(Done{}) : add(step, summary(values));
}

Status EventFile::hyper_parameters(const std::map<std::string, std::string>& settings) {
  std::string info;  // SessionStartInfo: a map, and its start time
  for (const auto& [name, text] : settings)
    info += bytes(1, bytes(1, name) + bytes(2, value_of_text(text)));
  info += real(5, now_s());
  return add(0,
             summary(value_of("_hparams_/session_start_info", plugin("hparams", bytes(3, info)))));
}

}  // namespace grapevine
