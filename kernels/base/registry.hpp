// Registry: named entries that a program adds to the library's own: methods, graphs, compressors,
// data sets. An added entry keeps its address until the process ends. Any thread may call it.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "kernels/base/mutex.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

/// A valid name in a spec or an option: lower-case letters, digits, dashes and underscores,
/// beginning with a letter.
constexpr bool is_plain_name(std::string_view name) {
  if (name.empty() || name[0] < 'a' || name[0] > 'z') return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')) return false;
  return true;
}

template <class Thing>  // has a name
class Registry {
 public:
  /// `what`: the kind of entry, for errors: "method". `taken`: the library itself uses the name.
  Status add(const char* what, Thing thing, bool taken) {
    const std::string name(thing.name);
    if (!is_plain_name(name))
      return user_error(
          std::string(what) + " \"" + name +
          "\" cannot be registered, accepted: a name of small letters, digits, - and _");
    const WriteLock lock(mutex_);
    if (taken || find_locked(name) != nullptr)
      return user_error(std::string(what) + " " + name +
                        " is there already, accepted: another name");
    things_.push_back(std::move(thing));
    return Done{};
  }

  /// Null: there is no such name.
  const Thing* find(std::string_view name) const {
    const ReadLock lock(mutex_);
    return find_locked(name);
  }

  template <class Use>
  void for_each(Use&& use) const {
    const ReadLock lock(mutex_);
    for (const Thing& thing : things_)
      use(thing);
  }

 private:
  const Thing* find_locked(std::string_view name) const GV_REQUIRES_SHARED(mutex_) {
    for (const Thing& thing : things_)
      if (thing.name == name) return &thing;
    return nullptr;
  }

  mutable SharedMutex mutex_;
  std::deque<Thing> things_ GV_GUARDED_BY(mutex_);  // a deque keeps their addresses
};

}  // namespace grapevine
