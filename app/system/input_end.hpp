// InputEnd: notices the end of standard input.
#pragma once
#include <functional>
#include <thread>

namespace grapevine {

class InputEnd {
 public:
  /// `then` is called once, on its own thread, unless the object is destroyed before. The input is
  /// discarded.
  explicit InputEnd(std::function<void()> then);
  InputEnd(const InputEnd&) = delete;
  ~InputEnd();

 private:
  void watch(const std::function<void()>& then);

  int stop_[2] = {-1, -1};  // a pipe that ends the watch
  std::thread thread_;
};

}  // namespace grapevine
