// JSON's text, to and from anybody: nothing that stands in a text or is nested in one ends us.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kernels/base/printable.hpp"

namespace grapevine {

/// Bytes that are not UTF-8 are replaced (U+FFFD).
template <class Value>
std::string json_text(const Value& value, int indent = -1) {
  return value.dump(indent, ' ', false, Value::error_handler_t::replace);
}

/// Whether brackets are nested no deeper than any JSON of ours: who walks a value recurses.
inline bool is_shallow(std::string_view text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool in_text = false;
  for (size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (in_text && c == '\\') {
      ++k;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '[' || c == '{')) {
      if (++depth > kDeepest) return false;
    } else if (!in_text && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return true;
}

/// Discarded (is_discarded(), and so no object, list, text or number) where it is no JSON, or
/// deeper than that.
template <class Value>
Value json_of_text(std::string_view text) {
  return is_shallow(text) ? Value::parse(text, nullptr, false) : Value(Value::value_t::discarded);
}

/// Each text in it as printable() shows it. REQUIRES: it came from json_of_text().
template <class Value>
void make_printable(Value& value) {
  if (value.is_string()) {
    value = printable(value.template get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (Value& part : value)
      make_printable(part);
  }
}

}  // namespace grapevine
