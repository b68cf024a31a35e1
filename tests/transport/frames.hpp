// The frames that the tests of bulk links send, and their paths.
#pragma once
#include "actors/transport/links.hpp"

namespace grapevine {

inline FrameHeader data(uint64_t number, size_t count) {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.number = number;
  h.count = count;
  return h;
}

/// Payloads as they are, beside a control link in TLS.
inline LinksOptions only_tcp() {
  LinksOptions options;
  options.bulk_encryption = false;
  options.same_host = false;
  return options;
}

}  // namespace grapevine
