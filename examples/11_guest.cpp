// A guest in C++: a program that computes a rank's steps and shares only a socket with the library.
// It includes no header of the library and does not link it. Any language that can map memory works
// as well.
//
// Requests and answers are records of 80 bytes (messages/guest.capnp). The program trains a line
// through y = x^2 + 2 x. It shares the memory of its parameters with its node: it changes them
// there and sends `step`. Then the memory has the rank's parameters, which were averaged with other
// ranks in the meantime. Each rank sees a quarter of the x from -1 to 1. Alone it finds a line
// whose mean squared error over all x is 0.3 or 1.6; the best line has 0.09.
//
// To build: ninja -C build/release 11_guest grapevine. To run four of them:
//   build/release/bin/grapevine launch --guests 4 -- build/release/bin/11_guest
// It prints:
//
//   the mean of 4 ranks is a line with an error of 0.1
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

enum Kind : uint16_t { kJoin, kWelcome, kRefused, kStep, kFinish = 8, kLeave, kWait = 11 };

struct Record {
  uint32_t segments_less_one = 0, words = 9, root = 0;  // one Cap'n Proto segment with
  uint16_t words_of_data = 8, words_of_pointers = 0;    // one struct without pointers
  uint16_t version = 2, kind = kJoin, flags = 0, dtype = 0;
  uint32_t rank = ~0u, ranks = 0;
  uint64_t number = 0, run_steps = 0, exchanges = 0, bytes = 0;
  double value = 0;
  uint64_t epoch = 0;
};
static_assert(sizeof(Record) == 80);
constexpr uint16_t kResumed = 1, kEnd = 2;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

class Node {
 public:
  explicit Node(const char* path) {
    sockaddr_un at{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(at.sun_path, path, sizeof at.sun_path - 1);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
      fail(std::string("no node answers at ") + path);
  }

  /// Returns the answer; `memory`: the descriptor that came with it.
  Record ask(Record question, const std::string& text = "", int* memory = nullptr) {
    question.bytes = text.size();
    const std::string sent =
        std::string(reinterpret_cast<char*>(&question), sizeof question) + text;
    if (::send(socket_, sent.data(), sent.size(), MSG_NOSIGNAL) != ssize_t(sent.size()))
      fail("the node is gone");
    for (Record answer;;) {
      alignas(cmsghdr) char beside[CMSG_SPACE(sizeof(int))];
      iovec to{&answer, sizeof answer};
      msghdr message{nullptr, 0, &to, 1, beside, sizeof beside, 0};
      if (::recvmsg(socket_, &message, MSG_WAITALL) != sizeof answer) fail("the node is gone");
      if (answer.kind == kWait) continue;  // once a second while the answer takes longer
      if (answer.kind == kRefused) fail("the node refuses this program");
      const cmsghdr* came = CMSG_FIRSTHDR(&message);
      if (memory && came) std::memcpy(memory, CMSG_DATA(came), sizeof *memory);
      return answer;
    }
  }

 private:
  int socket_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
};

float* map(int memory, size_t bytes, int sharing) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing, memory, 0);
  if (at == MAP_FAILED) fail("the node's memory cannot be mapped");
  return static_cast<float*>(at);
}

constexpr int kPoints = 2'000'000;  // a gradient takes some milliseconds
constexpr uint64_t kSteps = 1'200;  // of all ranks together
constexpr double kRate = 0.3;

double error(double slope, double offset, double x) { return slope * x + offset - x * x - 2 * x; }

int main() {
  const char* path = std::getenv("GRAPEVINE_NODE");
  if (path == nullptr) fail("GRAPEVINE_NODE is not set: grapevine launch --guests 4 -- 11_guest");
  Node node(path);
  int memory = -1;
  const Record seat = node.ask({.kind = kJoin}, "\ntrained line 2\n", &memory);
  float* line = map(memory, 2 * sizeof(float), MAP_SHARED);  // slope, offset
  Record at = seat;
  if (!(seat.flags & kResumed)) {  // this program sets the run's starting point
    line[0] = line[1] = 0;
    at = node.ask({.kind = kStep, .number = seat.number});
  }
  while (at.run_steps < kSteps && !(at.flags & kEnd)) {
    double slope = 0, offset = 0;
    for (int k = 0; k < kPoints; ++k) {
      const double x = (seat.rank + (k + 0.5) / kPoints) / 2 - 1;
      const double off = error(line[0], line[1], x);
      slope += off * x / kPoints, offset += off / kPoints;
    }
    line[0] -= float(kRate * slope), line[1] -= float(kRate * offset);
    at = node.ask({.kind = kStep, .number = at.number + 1});
  }
  const Record mean = node.ask({.kind = kFinish}, "", &memory);
  const float* best = map(memory, mean.bytes, MAP_PRIVATE);
  double sum = 0;
  for (int k = 0; k < kPoints; ++k)
    sum += std::pow(error(best[0], best[1], 2 * (k + 0.5) / kPoints - 1), 2);
  std::printf("the mean of %u ranks is a line with an error of %.1f\n", mean.ranks, sum / kPoints);
  node.ask({.kind = kLeave});
}
