#include "app/system/ask_node.hpp"

#include <fmt/core.h>

#include "actors/cluster/state_pieces.hpp"
#include "actors/transport/local_socket.hpp"
#include "app/system/json_text.hpp"

namespace grapevine {

Result<std::unique_ptr<Console>> open_console(const std::string& address, const std::string& key,
                                              double deadline_s) {
  std::optional<RunKey> secret;
  if (!key.empty()) {
    auto read = RunKey::read(key);
    if (!read) return read.error();
    secret = *read;
  }
  return Console::open(address, secret, deadline_s);
}

Result<std::string> address_of_node(const std::string& text) {
  if (text.starts_with('/')) return "unix:" + text;
  if (text.find(':') != text.npos) return text;
  return find_local(text);
}

Result<std::string> ask_node(const std::string& address, const std::string& key,
                             const ConsoleRequest& request, double deadline_s, double silence_s) {
  auto console = open_console(address, key, deadline_s);
  if (!console) return console.error();
  std::string text;
  bool ok = true;
  const Status asked = (*console)->ask(
      request,
      [&](const ConsoleReply& part) {
        ok = ok && part.ok;
        text += part.text;
        return true;
      },
      silence_s);
  if (!asked) return asked.error();
  if (!ok) return user_error(fmt::format("{}: {}", address, text));
  return text;
}

namespace {

constexpr double kMean_s = 300;  // the longest time for a mean
constexpr int kConnections = 5;

// Appends the next bytes of the snapshot. Error (world): the connection, or wrong bytes.
Status ask_for_bytes(Console& console, const std::string& address, uint64_t mean,
                     std::string& bytes) {
  std::string came, refusal;
  uint64_t hash = 0;
  const Status asked =
      console.ask({ConsoleVerb::snapshot, {}, mean, bytes.size()}, [&](const ConsoleReply& part) {
        if (!part.ok) refusal += part.text;
        came += part.bytes;
        hash = part.hash;
        return came.size() <= kAnswerBytes;
      });
  if (!asked) return asked.error();
  if (!refusal.empty()) return user_error(address + ": " + refusal);
  if (came.empty() || piece_hash(ConstVec(came.data(), came.size(), DType::bytes)) != hash)
    return world_error(address + ": a part of the snapshot does not match its hash");
  bytes += came;
  return Done{};
}

}  // namespace

Result<SnapshotAnswer> fetch_snapshot(const std::string& address, const std::string& key) {
  SnapshotAnswer answer;
  auto described = ask_node(address, key, {ConsoleVerb::snapshot, {}, 0, 0}, 2, kMean_s);
  if (!described) return described.error();
  answer.description = *std::move(described);
  const auto object = json_of_text<nlohmann::json>(answer.description);
  if (!object.is_object() || !object.value("mean", nlohmann::json()).is_number_unsigned() ||
      !object.value("bytes", nlohmann::json()).is_number_unsigned())
    return world_error(address + ": the answer is not a snapshot");
  const auto mean = object["mean"].get<uint64_t>();
  const auto size = object["bytes"].get<uint64_t>();
  Status last = Done{};
  for (int k = 0; k < kConnections && answer.bytes.size() < size; ++k) {
    auto console = open_console(address, key, 2);
    if (!console) {
      last = console.error();
      continue;
    }
    do {
      last = ask_for_bytes(**console, address, mean, answer.bytes);
    } while (last && answer.bytes.size() < size);
    if (!last && last.error().kind == Error::Kind::user) return last.error();
  }
  if (answer.bytes.size() < size) return last.error();
  return answer;
}

Status follow_node(const std::string& address, const std::string& key,
                   const ConsoleRequest& request,
                   const std::function<bool(const ConsoleReply&)>& part) {
  auto console = open_console(address, key, 2);
  if (!console) return console.error();
  return (*console)->ask(request, part, 0);
}

}  // namespace grapevine
