// InputEnd: notices the end of standard input, and reads its lines until then.
#pragma once
#include <functional>
#include <string>
#include <thread>

namespace grapevine {

class InputEnd {
 public:
  using OnLine = std::function<void(const std::string&)>;

  /// On its own thread, `on_line` is called with each line, of which at most 256 bytes are kept,
  /// and `then` once, unless the object is destroyed before.
  InputEnd(OnLine on_line, std::function<void()> then);
  InputEnd(const InputEnd&) = delete;
  ~InputEnd();

 private:
  void watch(const OnLine& on_line, const std::function<void()>& then);

  int stop_[2] = {-1, -1};  // a pipe that ends the watch
  std::thread thread_;
};

}  // namespace grapevine
