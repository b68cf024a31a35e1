// Pickle: reads the output of Python's pickle module as a tree of plain values, without running
// anything.
//
// Protocols 0 to 5. A call of a function or the construction of an object becomes a value that
// records the function and its arguments; nothing calls it. Texts are views of the pickle, and
// constructed values are counted, so a pickle takes at most some hundred times its own bytes, and
// at most 512 MiB.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace grapevine {

struct PickleValue {
  enum class Kind : uint8_t {
    other,       // None, a float, bytes
    integer,     // number; a boolean is 0 or 1
    text,        // of `length` bytes, from `number` on
    list,        // a list, a tuple or a set: an object's items
    dict,        // an object's items: key, value, key, ...
    global,      // an object's items: the module's name, its own
    call,        // an object: what was called, with what
    persistent,  // an object's one item, an id: of what lies outside the pickle
  };
  Kind kind = Kind::other;
  uint32_t length = 0;
  int64_t number = 0;  // itself, or where the text or the object is
};

class Pickle {
 public:
  /// Reads one pickle from `at` on and leaves `at` behind it. The bytes outlive it.
  Pickle(std::span<const uint8_t> bytes, size_t& at);

  /// Nothing: see complaint().
  const std::optional<PickleValue>& value() const { return value_; }
  const std::string& complaint() const { return complaint_; }

  std::string_view text(PickleValue) const;               // of a text; else empty
  std::string name(PickleValue) const;                    // of a global: "module name"; else empty
  std::span<const PickleValue> items(PickleValue) const;  // of a call: of the dict that it made
  PickleValue callee(PickleValue) const;                  // of a call
  /// How the file calls what lies outside the pickle, in the order in which it does.
  const std::vector<PickleValue>& ids() const { return ids_; }
  std::span<const PickleValue> arguments(PickleValue) const;

 private:
  friend class PickleMachine;

  struct Object {
    PickleValue callee, arguments;
    std::vector<PickleValue> items;
  };
  const Object* object(PickleValue) const;

  std::span<const uint8_t> bytes_;
  std::deque<Object> objects_;
  std::vector<PickleValue> ids_;
  std::optional<PickleValue> value_;
  std::string complaint_;
};

}  // namespace grapevine
