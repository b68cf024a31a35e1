// A second process on the GPU: what its context takes, and what it does to our work.
#include "tests/bench/gpu_facts/processes.hpp"
#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"
#include "tests/bench/gpu_facts/work.hpp"

namespace grapevine::facts {
namespace {

// Some milliseconds on every processor. Counted work: time would pass for who is set aside, too.
void compute(cudaStream_t stream) {
  constexpr int kRounds = 1'000'000;
  grind(stream, 2 * static_cast<unsigned>(processors()), kRounds);
}

}  // namespace

/// Has a context; from "begin" on it keeps the GPU busy until it is killed.
void play_neighbour() {
  must(cudaFree(nullptr));
  const cudaStream_t stream = make_stream();
  nothing(stream);
  must(cudaStreamSynchronize(stream));
  answer("ready");
  std::string word;
  if (!told(word)) return;
  compute(stream);
  answer("busy");
  while (is_quiet()) {
    for (int k = 0; k < 4; ++k)
      compute(stream);
    must(cudaStreamSynchronize(stream));
  }
}

void ask_context() {
  must(cudaFree(nullptr));
  const size_t before = free_bytes();
  Partner neighbour("neighbour");
  neighbour.hear();
  const size_t beside = free_bytes();
  neighbour.kill();
  const bool back = eventually([&] { return free_bytes() >= before; }, 5);
  say("context", text("the context of another process takes %.0f MiB of the GPU, which are %s when "
                      "it is dead",
                      (static_cast<double>(before) - static_cast<double>(beside)) / (1 << 20),
                      back ? "back" : "NOT BACK"));
}

void ask_two_processes() {
  const cudaStream_t stream = make_stream();
  const auto some = [&] {
    for (int k = 0; k < 20; ++k)
      compute(stream);
  };
  const double alone = on_stream_s(stream, some);
  Partner neighbour("neighbour");
  neighbour.hear();
  neighbour.tell("begin");
  neighbour.hear();
  const double beside = on_stream_s(stream, some);
  say("two_processes", text("work of %.1f ms alone takes %.1f ms beside another busy process: %.1f "
                            "times as long",
                            alone * 1e3, beside * 1e3, beside / alone));
}

}  // namespace grapevine::facts
