// The requests of a console to a node, and the answers. Values. `grapevine ctl` and scripts send
// them on a separate link, whose Hello has the purpose `console`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace grapevine {

constexpr size_t kTextBytes = 48 * 1024;  // in a request's argument, or in one part of an answer
constexpr size_t kAnswerBytes = 1 << 20;  // of a snapshot, in all parts of one answer

enum class ConsoleVerb : uint8_t {
  status = 0,
  topology,
  reconfigure,
  drain,
  stop,
  inject,
  snapshot,
  events,
  checkpoint
};

struct ConsoleRequest {
  ConsoleVerb verb = ConsoleVerb::status;
  std::string argument = {};  // a spec, or the text of a plan
  // For a snapshot. mean 0: the node takes a mean and describes it as JSON, with its number. That
  // number: the node sends the mean's bytes from `offset` on, at most kAnswerBytes of them.
  uint64_t mean = 0, offset = 0;
  bool operator==(const ConsoleRequest&) const = default;
};

/// Parts of one answer, in order. `text` is JSON if the node served the request. The last part of
/// an answer with bytes has their hash (piece_hash).
struct ConsoleReply {
  bool ok = true;
  bool more = false;
  std::string text;
  std::string bytes = {};
  uint64_t hash = 0;
  bool operator==(const ConsoleReply&) const = default;
};

}  // namespace grapevine
