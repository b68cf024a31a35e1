// JSON texts from and for any source: no content or nesting of a text can end this process.
#pragma once
#include <limits>
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

/// Whether brackets are nested no deeper than in any JSON of ours, because readers of a value
/// recurse.
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

/// Discarded (is_discarded(): no object, list, text or number) if the text is not JSON or is too
/// deep.
template <class Value>
Value json_of_text(std::string_view text) {
  return is_shallow(text) ? Value::parse(text, nullptr, false) : Value(Value::value_t::discarded);
}

/// A number of an object; NaN if it is null or missing.
template <class Value>
double number_in(const Value& object, const std::string& name) {
  const auto found = object.find(name);
  const bool has_it = found != object.end() && found->is_number();
  return has_it ? found->template get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// Applies printable() to each text in it. REQUIRES: it came from json_of_text().
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
