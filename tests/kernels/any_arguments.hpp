// Arguments for every elementwise pass, made from their types alone, so a new pass needs no list of
// a test: the numbers are drawn by their place, and all vectors are there.
#pragma once
#include <type_traits>
#include <utility>

#include "kernels/passes/passes.hpp"

namespace grapevine::testing {

/// The value of one field. `flag` is that of all fields that are true or false.
struct AnyField {
  size_t place;
  bool flag;

  operator bool() const { return flag; }
  operator int() const { return 2; }
  operator size_t() const { return 2; }
  operator double() const { return 0.1 + 0.07 * static_cast<double>(place); }
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>((place + 1) * 64);  // tells vectors apart; there is no memory
  }
};

template <class Arguments, size_t... places>
constexpr bool has_fields(std::index_sequence<places...>) {
  return requires { Arguments{AnyField{places, false}...}; };
}

template <class Arguments, size_t... places>
Arguments with_fields(bool flag, std::index_sequence<places...>) {
  return Arguments{AnyField{places, flag}...};
}

template <class Arguments, size_t kFields = 32>
Arguments any_arguments(bool flag) {
  using Places = std::make_index_sequence<kFields>;
  if constexpr (has_fields<Arguments>(Places())) {
    return with_fields<Arguments>(flag, Places());
  } else {
    return any_arguments<Arguments, kFields - 1>(flag);
  }
}

template <class Arguments>
struct NoSlot {};

template <class... Arguments, class Body>
void for_each_slot(const Slots<NoSlot, Arguments...>&, const Body& body) {
  for (const bool flag : {false, true})
    (body(any_arguments<Arguments>(flag)), ...);
}

/// Calls body(arguments) for every elementwise pass.
template <class Body>
void for_each_pass(const Body& body) {
  for_each_slot(RuleSlots<NoSlot>(), body);
  for_each_slot(VectorSlots<NoSlot>(), body);
}

}  // namespace grapevine::testing
