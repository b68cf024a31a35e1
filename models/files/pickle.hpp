// Pickle: reads the output of Python's pickle module as a tree of plain values, without running
// anything.
//
// Protocols 0 to 5. A call of a function or the construction of an object becomes a value that
// records the function and its arguments; nothing is called. Texts are views of the pickle, and
// constructed values are counted. So a pickle takes at most a few hundred times its own size, and
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
    text,        // `length` bytes from `number` on
    list,        // a list, a tuple or a set; its items are an object's
    dict,        // an object's items: key, value, key, ...
    global,      // an object's items: the module's name, its own name
    call,        // an object: the callee and the arguments
    persistent,  // an object's one item: the id of a value outside the pickle
  };
  Kind kind = Kind::other;
  uint32_t length = 0;
  int64_t number = 0;  // the number, or the index of the text or object
};

class Pickle {
 public:
  /// Reads one pickle from `at` on and moves `at` to its end. The bytes must outlive this object.
  Pickle(std::span<const uint8_t> bytes, size_t& at);

  /// Empty: complaint() says why.
  const std::optional<PickleValue>& value() const { return value_; }
  const std::string& complaint() const { return complaint_; }

  std::string_view text(PickleValue) const;  // of a text; empty for others
  // Of a global: "module name"; empty for others.
  std::string name(PickleValue) const;
  std::span<const PickleValue> items(PickleValue) const;  // of a call: of the dict that it made
  PickleValue callee(PickleValue) const;                  // of a call
  /// The ids of the values outside the pickle, in the pickle's order.
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
