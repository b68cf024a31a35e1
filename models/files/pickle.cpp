#include "models/files/pickle.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

namespace grapevine {

using Kind = PickleValue::Kind;

namespace {

constexpr size_t kMostCells = size_t{1} << 25;  // stored values, 16 bytes each
constexpr size_t kCellsOfObject = 5;
constexpr char kDamaged[] = "its pickle is damaged";

}  // namespace

/// Executes a pickle's opcodes. Stops at the first error and puts it into `pickle_.complaint_`.
class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, size_t& at) : pickle_(pickle), bytes_(pickle.bytes_), at_(at) {}

  void run() {
    while (good()) {
      const auto code = static_cast<uint8_t>(number(1));
      if (!good()) return;
      if (code == '.') {
        const PickleValue last = pop();
        if (good()) pickle_.value_ = last;
        return;
      }
      if (!push_plain(code) && !push_text(code) && !remember(code) && !gather(code) && !make(code))
        fail(fmt::format("its pickle has the opcode {}", code));
    }
  }

 private:
  bool push_plain(uint8_t code) {
    switch (code) {
      case 0x80: number(1); return true;  // the protocol
      case 0x95: number(8); return true;  // a frame's length
      case 'J': return integer(static_cast<int32_t>(number(4)));
      case 'K': return integer(static_cast<int64_t>(number(1)));
      case 'M': return integer(static_cast<int64_t>(number(2)));
      case 'I':
      case 'L': return written_number(line());
      case 0x8a: return long_number(number(1));
      case 0x8b: return long_number(number(4));
      case 0x88:
      case 0x89: return integer(code == 0x88);
      case 'N': return push({}), true;
      case 'F': return line(), push({}), true;
      case 'G': return number(8), push({}), true;
      default: return false;
    }
  }

  bool push_text(uint8_t code) {
    switch (code) {
      case 'V': return push(line()), true;
      case 'S': return push(unquoted(line())), true;
      case 'X': return push(text(number(4))), true;
      case 0x8c: return push(text(number(1))), true;
      case 0x8d: return push(text(number(8))), true;
      case 'T': return push(text(number(4))), true;
      case 'U': return push(text(number(1))), true;
      case 'C': return text(number(1)), push({}), true;  // bytes
      case 'B': return text(number(4)), push({}), true;
      case 0x8e:
      case 0x96: return text(number(8)), push({}), true;
      default: return false;
    }
  }

  bool remember(uint8_t code) {
    switch (code) {
      case 'q': return keep(number(1));
      case 'r': return keep(number(4));
      case 'p': return keep(decimal(line()));
      case 0x94: return keep(memo_.size());
      case 'h': return recall(number(1));
      case 'j': return recall(number(4));
      case 'g': return recall(decimal(line()));
      case '0':
        if (!marks_.empty() && marks_.back() == stack_.size()) return marks_.pop_back(), true;
        return pop(), true;
      case '1': return above_mark(), true;
      case '2': return push(top()), true;
      default: return false;
    }
  }

  // Creates containers and adds items to them.
  bool gather(uint8_t code) {
    switch (code) {
      case '(': return marks_.push_back(stack_.size()), spend(1), true;
      case '}': return push(object(Kind::dict, {})), true;
      case 'd': return push(object(Kind::dict, above_mark())), true;
      case ']':
      case ')':
      case 0x8f: return push(object(Kind::list, {})), true;
      case 't':
      case 'l':
      case 0x91: return push(object(Kind::list, above_mark())), true;
      case 0x85:
      case 0x86:
      case 0x87: return push(object(Kind::list, taken(code - 0x84u))), true;
      case 'a': return add(taken(1), false);
      case 'e':
      case 0x90: return add(above_mark(), false);
      case 's': return add(taken(2), true);
      case 'u': return add(above_mark(), true);
      case 'b': return pop(), true;  // attributes
      default: return false;
    }
  }

  // Records the calls that a pickle asks Python to make.
  bool make(uint8_t code) {
    switch (code) {
      case 'c': {
        const PickleValue module = line(), own = line();
        return push(object(Kind::global, {module, own})), true;
      }
      case 0x93: return push(object(Kind::global, taken(2))), true;
      case 'Q': return outside(pop());
      case 'P': return outside(line());
      case 'R':
      case 0x81: {
        const PickleValue arguments = pop(), callee = pop();
        return call(callee, arguments);
      }
      case 0x92: {
        pop();  // arguments by name
        const PickleValue arguments = pop(), callee = pop();
        return call(callee, arguments);
      }
      case 'i': {
        const PickleValue module = line(), own = line();
        const PickleValue callee = object(Kind::global, {module, own});
        return call(callee, object(Kind::list, above_mark()));
      }
      case 'o': {
        std::vector<PickleValue> all = above_mark();
        if (all.empty()) return fail(kDamaged), true;
        const PickleValue callee = all.front();
        all.erase(all.begin());
        return call(callee, object(Kind::list, std::move(all)));
      }
      default: return false;
    }
  }

  // --- basic operations

  bool good() const { return pickle_.complaint_.empty(); }
  void fail(const std::string& why) {
    if (good()) pickle_.complaint_ = why;
  }
  void spend(size_t cells) {
    spent_ += cells;
    if (spent_ > kMostCells) fail("its pickle is too large");
  }

  std::span<const uint8_t> take(uint64_t size) {
    if (!good() || size > bytes_.size() - at_) return fail("its pickle is cut"), bytes_.first(0);
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  uint64_t number(size_t size) {
    const auto field = take(size);
    uint64_t value = 0;
    for (size_t k = 0; k < field.size(); ++k)
      value |= uint64_t{field[k]} << 8 * k;
    return value;
  }
  PickleValue text(uint64_t size) {
    const auto begin = static_cast<int64_t>(at_);
    if (size >> 32 != 0) return fail(kDamaged), PickleValue{};
    return {Kind::text, static_cast<uint32_t>(take(size).size()), begin};
  }
  PickleValue line() {
    const size_t most = std::min<size_t>(bytes_.size() - at_, UINT32_MAX);
    const void* end = most == 0 ? nullptr : std::memchr(bytes_.data() + at_, '\n', most);
    if (end == nullptr) return fail("its pickle is cut"), PickleValue{};
    const size_t length =
        static_cast<size_t>(static_cast<const uint8_t*>(end) - bytes_.data()) - at_;
    const PickleValue value = text(length);
    at_ += good();
    return value;
  }
  static PickleValue unquoted(PickleValue line) {
    if (line.length < 2) return line;
    return {line.kind, line.length - 2, line.number + 1};
  }
  uint64_t decimal(PickleValue line) {
    const std::string_view digits = pickle_.text(line);
    uint64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }

  void push(PickleValue value) {
    spend(1);
    if (good()) stack_.push_back(value);
  }
  bool integer(int64_t value) { return push({Kind::integer, 0, value}), true; }
  // A number that does not fit becomes a value of kind `other`.
  bool written_number(PickleValue line) {
    std::string_view digits = pickle_.text(line);
    if (digits.ends_with('L')) digits.remove_suffix(1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    return whole ? integer(value) : (push({}), true);
  }
  bool long_number(uint64_t size) {
    const auto bytes = take(size);
    if (bytes.size() > sizeof(int64_t)) return push({}), true;
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t k = 0; k < bytes.size(); ++k) {
      value &= ~(uint64_t{0xff} << 8 * k);
      value |= uint64_t{bytes[k]} << 8 * k;
    }
    return integer(static_cast<int64_t>(value));
  }

  PickleValue top() {
    if (stack_.empty()) return fail(kDamaged), PickleValue{};
    return stack_.back();
  }
  PickleValue pop() {
    const PickleValue value = top();
    if (good()) stack_.pop_back();
    return value;
  }
  std::vector<PickleValue> taken(size_t count) {
    if (stack_.size() < count) return fail(kDamaged), std::vector<PickleValue>();
    spend(count);
    std::vector<PickleValue> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<PickleValue> above_mark() {
    if (marks_.empty() || marks_.back() > stack_.size())
      return fail(kDamaged), std::vector<PickleValue>();
    const size_t first = marks_.back();
    marks_.pop_back();
    return taken(stack_.size() - first);
  }
  bool keep(uint64_t number) {
    spend(kCellsOfObject);
    const PickleValue value = top();
    if (good()) memo_[number] = value;
    return true;
  }
  bool recall(uint64_t number) {
    const auto known = memo_.find(number);
    return known == memo_.end() ? fail(kDamaged) : push(known->second), true;
  }

  PickleValue object(Kind kind, std::vector<PickleValue> items) {
    spend(kCellsOfObject);
    if (!good()) return {};
    pickle_.objects_.push_back({{}, {}, std::move(items)});
    return {kind, 0, static_cast<int64_t>(pickle_.objects_.size()) - 1};
  }
  bool outside(PickleValue id) {
    push(object(Kind::persistent, {id}));
    if (good()) pickle_.ids_.push_back(id);
    return true;
  }
  bool call(PickleValue callee, PickleValue arguments) {
    const PickleValue made = object(Kind::call, {});
    if (!good()) return true;
    pickle_.objects_.back().callee = callee;
    pickle_.objects_.back().arguments = arguments;
    return push(made), true;
  }
  // Pairs added to an object count as those of a dict.
  bool add(const std::vector<PickleValue>& items, bool in_pairs) {
    const PickleValue to = top();
    const bool fits = to.kind == (in_pairs ? Kind::dict : Kind::list) || to.kind == Kind::call;
    if (!good() || !fits || (in_pairs && items.size() % 2 != 0)) return fail(kDamaged), true;
    if (to.kind == Kind::call && !in_pairs) return true;
    auto& own = pickle_.objects_[static_cast<size_t>(to.number)].items;
    own.insert(own.end(), items.begin(), items.end());
    return true;
  }

  Pickle& pickle_;
  const std::span<const uint8_t> bytes_;
  size_t& at_;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PickleValue> memo_;
  size_t spent_ = 0;
};

Pickle::Pickle(std::span<const uint8_t> bytes, size_t& at) : bytes_(bytes) {
  PickleMachine(*this, at).run();
}

std::string_view Pickle::text(PickleValue value) const {
  if (value.kind != Kind::text) return {};
  return {reinterpret_cast<const char*>(bytes_.data()) + value.number, value.length};
}

std::string Pickle::name(PickleValue value) const {
  constexpr size_t kLongest = 100;
  if (value.kind != Kind::global) return {};
  const auto parts = items(value);
  return fmt::format("{} {}", text(parts[0]).substr(0, kLongest),
                     text(parts[1]).substr(0, kLongest));
}

const Pickle::Object* Pickle::object(PickleValue value) const {
  const bool is_one = value.kind >= Kind::list;
  return is_one ? &objects_[static_cast<size_t>(value.number)] : nullptr;
}

std::span<const PickleValue> Pickle::items(PickleValue value) const {
  const Object* found = object(value);
  return found == nullptr ? std::span<const PickleValue>() : found->items;
}

PickleValue Pickle::callee(PickleValue value) const {
  return value.kind == Kind::call ? object(value)->callee : PickleValue{};
}

std::span<const PickleValue> Pickle::arguments(PickleValue value) const {
  return value.kind == Kind::call ? items(object(value)->arguments)
                                  : std::span<const PickleValue>();
}

}  // namespace grapevine
