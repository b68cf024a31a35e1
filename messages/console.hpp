// What a console says to a node, and what it is answered. Values; `grapevine ctl` and scripts speak
// them on a link of their own, whose Hello has the purpose `console`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace grapevine {

constexpr size_t kTextBytes = 48 * 1024;  // of a request's argument, or of one part of an answer

enum class ConsoleVerb : uint8_t {
  status = 0,
  topology,
  reconfigure,
  drain,
  stop,
  inject,
  snapshot,
  events
};

struct ConsoleRequest {
  ConsoleVerb verb = ConsoleVerb::status;
  std::string argument;  // a spec, or the text of a plan
  bool operator==(const ConsoleRequest&) const = default;
};

/// Parts of one answer, in order; `text` is JSON where the request was served.
struct ConsoleReply {
  bool ok = true;
  bool more = false;
  std::string text;
  bool operator==(const ConsoleReply&) const = default;
};

}  // namespace grapevine
