// gpu_facts: what the design of the GPU's side takes for granted, asked of a real GPU.
//
//   bin/gpu_facts [QUESTION...]
//
// One line a fact: `fact NAME  answer`; where the design supposes one, it begins with yes or NO.
// Each question is a process of its own with a time limit, so that one that hangs or breaks its
// context is named and the others go on. Some 40 seconds in all. Ends with status 77 where no GPU
// is, 1 where a question stayed without an answer. A NO is an answer.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "tests/bench/gpu_facts/processes.hpp"
#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"

using namespace grapevine::facts;

namespace {

struct Question {
  const char* name;
  double limit_s;
  void (*ask)();
};

const Question kQuestions[] = {
    {"device", 20, ask_device},
    {"event", 20, ask_event},
    {"pageable", 20, ask_pageable},
    {"learn", 20, ask_learn},
    {"cost", 20, ask_cost},
    {"stream.bubbles", 20, ask_bubbles},
    {"copy", 30, ask_copy},
    {"allocate", 20, ask_allocate},
    {"batch", 20, ask_batch},
    {"priority", 20, ask_priority},
    {"vmm", 40, ask_vmm},
    {"vmm.killed", 40, ask_killed},
    {"vmm.exporter_faults", 40, ask_exporter_faults},
    {"vmm.read_only", 20, ask_read_only},
    {"context", 40, ask_context},
    {"two_processes", 40, ask_two_processes},
    {"sticky", 20, ask_sticky},
#ifdef GRAPEVINE_NCCL
    {"nccl.price", 40, ask_nccl_price},
    {"nccl.absent_peer", 40, ask_nccl_absent_peer},
    {"nccl.one_gpu_twice", 40, ask_nccl_one_gpu_twice},
#endif
};

const Question kRoles[] = {
    {"exporter", 0, play_exporter},
    {"neighbour", 0, play_neighbour},
};

const Question* find(std::span<const Question> questions, const char* name) {
  for (const Question& q : questions)
    if (std::strcmp(q.name, name) == 0) return &q;
  return nullptr;
}

/// In a process of its own, which ends here whatever threads it has left, or with whoever asks.
[[noreturn]] void perform(const Question& question) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  try {
    question.ask();
  } catch (const NoAnswer& reason) {
    say(question.name, std::string("no answer: ") + reason.what());
    status = 3;
  }
  std::fflush(stdout);
  std::_Exit(status);
}

/// Whether it was answered.
bool put(const Question& question) {
  const int status = await_end(start_again({"--ask", question.name}, true), question.limit_s);
  if (status == kLate) {
    say(question.name, text("no answer within %.0f s", question.limit_s));
  } else if (WIFSIGNALED(status)) {
    say(question.name, text("no answer: ended by signal %d", WTERMSIG(status)));
  }
  return status == 0;
}

}  // namespace

int main(int count, char** words) {
  // A question may stand still while another one's kernel would be loaded. The product has no such
  // kernel, and sets nothing.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  if (count == 3 && std::strcmp(words[1], "--ask") == 0) {
    if (const Question* question = find(kQuestions, words[2])) perform(*question);
  }
  if (count == 3 && std::strcmp(words[1], "--role") == 0) {
    if (const Question* role = find(kRoles, words[2])) perform(*role);
  }
  const std::vector<std::string> wanted(words + 1, words + count);
  for (const std::string& name : wanted) {
    if (find(kQuestions, name.c_str()) == nullptr) {
      std::fprintf(stderr, "gpu_facts: no question is named %s\n", name.c_str());
      return 2;
    }
  }
  int devices = 0, driver = 0;
  if (const cudaError_t none = cudaGetDeviceCount(&devices); none != cudaSuccess || devices == 0) {
    static_cast<void>(cudaDriverGetVersion(&driver));  // 0: there is none
    std::printf("SKIPPED: no CUDA device: %s\n",
                driver == 0 ? "no driver" : cudaGetErrorString(none));
    return 77;
  }
  int unanswered = 0;
  for (const Question& question : kQuestions)
    if (wanted.empty() || std::count(wanted.begin(), wanted.end(), question.name) > 0) {
      unanswered += put(question) ? 0 : 1;
    }
  std::printf("%d questions without an answer\n", unanswered);
  return unanswered == 0 ? 0 : 1;
}
