// Result<T>: a value, or one clear line with the reason why there is none.
//
// Kind::user: the user asked for something impossible (exit status 2). Kind::world: the machine, a
// file or a peer failed (exit status 1). Bugs in this code are neither: see check.hpp.
#pragma once
#include <string>
#include <utility>
#include <variant>

#include "kernels/base/check.hpp"

namespace grapevine {

struct Error {
  enum class Kind { user, world };
  Kind kind = Kind::user;
  std::string message;  // one line: the thing, its value, what is accepted

  int exit_status() const { return kind == Kind::user ? 2 : 1; }
};

inline Error user_error(std::string message) { return {Error::Kind::user, std::move(message)}; }
inline Error world_error(std::string message) { return {Error::Kind::world, std::move(message)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return content_.index() == 0; }

  T& operator*() & { return value(); }
  const T& operator*() const& { return const_cast<Result*>(this)->value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &const_cast<Result*>(this)->value(); }

  const Error& error() const {
    GV_CHECK(content_.index() == 1u);
    return std::get<1>(content_);
  }

 private:
  T& value() {
    if (content_.index() != 0) {
      check_detail::fail(__FILE__, __LINE__, "a Result was read that holds an error",
                         std::get<1>(content_).message);
    }
    return std::get<0>(content_);
  }

  std::variant<T, Error> content_;
};

struct Done {};  // for Result<Done>: an action that either worked or did not
using Status = Result<Done>;

}  // namespace grapevine
