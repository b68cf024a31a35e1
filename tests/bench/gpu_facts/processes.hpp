// Other processes: one for each question, so that one that hangs or breaks its context takes no
// other along, and the partner that some questions need on the same GPU.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace grapevine::facts {

/// This program anew, in a group of its own or in ours. `socket`: becomes its descriptor kSocket.
pid_t start_again(const std::vector<std::string>& arguments, bool own_group, int socket = -1);
inline constexpr int kSocket = 3;

/// Waits for the end of a child: its status as of waitpid(). When the time is over its group is
/// killed, and the answer is kLate.
int await_end(pid_t child, double limit_s);
inline constexpr int kLate = -1;

/// One that plays a role (main.cpp) and is told what to do, a word at a time. Killed with us.
class Partner {
 public:
  explicit Partner(const std::string& role);
  ~Partner();
  Partner(const Partner&) = delete;

  void tell(const std::string& word) const;
  /// The next word; no answer to the question where none comes. `descriptor`: what came with it.
  std::string hear(int* descriptor = nullptr) const;
  /// kill -9; returns when it is gone.
  void kill();

 private:
  pid_t child_ = -1;
  int socket_ = -1;
};

/// The other end, in the partner. False: it is time to go.
bool told(std::string& word);
void answer(const std::string& word, int descriptor = -1);

/// In a partner: whether nobody has said anything yet.
bool is_quiet();

}  // namespace grapevine::facts
