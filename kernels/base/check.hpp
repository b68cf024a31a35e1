// GV_CHECK(a < b): a bug in this code ends the process. The message has the broken condition and
// both of its values.
//
// For broken invariants and preconditions only. Failures of the world (a peer has gone, a bad
// frame) are values, see result.hpp. A mistake of the user is a Result with one clear line.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace grapevine::check_detail {

template <class T>
std::string shown(const T& value) {
  if constexpr (requires(std::ostringstream & out) { out << value; }) {
    std::ostringstream out;
    out.precision(17);
    out << value;
    return out.str();
  } else {
    return "(not printable)";
  }
}

[[noreturn]] inline void fail(const char* file, int line, const char* sentence,
                              const std::string& values) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s%s%s\n", file, line, sentence,
               values.empty() ? "" : ", with ", values.c_str());
  std::abort();
}

struct Outcome {
  bool holds;
  std::string values;
};

template <class L>
struct Left {
  const L& left;

  template <class R, class Compare>
  Outcome against(const R& right, const char* op, Compare compare) const {
    if (compare(left, right)) return {true, {}};
    return {false, shown(left) + " " + op + " " + shown(right)};
  }
  template <class R>
  Outcome operator==(const R& r) const {
    return against(r, "==", [](const L& a, const R& b) { return a == b; });
  }
  template <class R>
  Outcome operator!=(const R& r) const {
    return against(r, "!=", [](const L& a, const R& b) { return a != b; });
  }
  template <class R>
  Outcome operator<(const R& r) const {
    return against(r, "<", [](const L& a, const R& b) { return a < b; });
  }
  template <class R>
  Outcome operator<=(const R& r) const {
    return against(r, "<=", [](const L& a, const R& b) { return a <= b; });
  }
  template <class R>
  Outcome operator>(const R& r) const {
    return against(r, ">", [](const L& a, const R& b) { return a > b; });
  }
  template <class R>
  Outcome operator>=(const R& r) const {
    return against(r, ">=", [](const L& a, const R& b) { return a >= b; });
  }
  operator Outcome() const { return {static_cast<bool>(left), {}}; }
};

struct Sentence {
  template <class L>
  Left<L> operator<<(const L& left) const {
    return {left};
  }
};

}  // namespace grapevine::check_detail

#define GV_CHECK(sentence)                                                                      \
  do {                                                                                          \
    const ::grapevine::check_detail::Outcome gv_outcome = ::grapevine::check_detail::Sentence{} \
                                                          << sentence;                          \
    if (!gv_outcome.holds) [[unlikely]]                                                         \
      ::grapevine::check_detail::fail(__FILE__, __LINE__, #sentence, gv_outcome.values);        \
  } while (false)
