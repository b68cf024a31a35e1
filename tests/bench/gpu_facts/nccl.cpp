// An edge between two hosts over NCCL, as far as one GPU can tell: what a communicator of two
// ranks costs, and how one ends whose peer never comes.
#include <nccl.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"

namespace grapevine::facts {
namespace {

void must(ncclResult_t answer, Where where = Where::current()) {
  if (answer != ncclSuccess && answer != ncclInProgress) {
    give_up(ncclGetErrorString(answer), where);
  }
}

/// Calls return at once, and all is asked about: without it there is no safe way out.
ncclConfig_t edge() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.minCTAs = 1;
  config.maxCTAs = 2;
  return config;
}

ncclUniqueId meeting_point() {
  ncclUniqueId id;
  must(ncclGetUniqueId(&id));
  return id;
}

/// The communicator's result once it is no longer in progress, or when the time is over.
ncclResult_t await_end(ncclComm_t comm, double limit_s) {
  ncclResult_t state = ncclInProgress;
  const auto is_done = [&] {
    return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclInProgress;
  };
  static_cast<void>(eventually(is_done, limit_s));
  return state;
}

/// The seconds that an abort takes, on its own thread; negative: it did not return within 10 s.
double abort_s(ncclComm_t comm) {
  const auto done = std::make_shared<std::atomic<bool>>(false);
  std::thread([comm, done] {
    ncclCommAbort(comm);
    *done = true;
  }).detach();
  const double begun = now_s();
  constexpr double kLimit_s = 10;
  return eventually([&] { return done->load(); }, kLimit_s) ? now_s() - begun : -1;
}

std::string returned(double seconds) {
  return seconds < 0 ? "HANGS" : text("returned after %.0f ms", seconds * 1e3);
}

}  // namespace

void ask_nccl_price() {
  constexpr size_t kNumbers = size_t{1} << 20;
  const cudaStream_t stream = make_stream();
  void *const out = device_memory(kNumbers * sizeof(float)), *const in = device_memory(
                                                                 kNumbers * sizeof(float));
  const size_t before = free_bytes();
  ncclConfig_t config = edge();
  ncclComm_t comm = nullptr;
  ncclResult_t made = ncclInProgress;
  const double took = took_s([&] {
    must(ncclCommInitRankConfig(&comm, 1, meeting_point(), 0, &config));
    made = await_end(comm, 15);
  });
  must(made);
  must(ncclGroupStart());
  must(ncclSend(out, kNumbers, ncclFloat, 0, comm, stream));
  must(ncclRecv(in, kNumbers, ncclFloat, 0, comm, stream));
  must(ncclGroupEnd());
  const ncclResult_t queued = await_end(comm, 5);
  must(cudaStreamSynchronize(stream));
  const double mib = (static_cast<double>(before) - static_cast<double>(free_bytes())) / (1 << 20);
  int version = 0;
  must(ncclGetVersion(&version));
  judge("nccl.price", queued == ncclSuccess && mib <= 600,
        text("version %d: a communicator of one rank takes %.0f ms and, with a message to itself, "
             "%.0f MiB (600 at most)",
             version, took * 1e3, mib));
  const double gone = abort_s(comm);
  judge("nccl.abort", gone >= 0, "of an idle communicator: " + returned(gone));
}

/// The other rank's process never starts.
void ask_nccl_absent_peer() {
  constexpr double kDeadline_s = 2, kMost_s = 3;
  ncclConfig_t config = edge();
  ncclComm_t comm = nullptr;
  const double begun = now_s();
  must(ncclCommInitRankConfig(&comm, 2, meeting_point(), 0, &config));
  const ncclResult_t state = await_end(comm, kDeadline_s);
  const double gone = abort_s(comm);
  const double in_all = now_s() - begun;
  void* memory = nullptr;
  const cudaError_t after = cudaMalloc(&memory, 1 << 20);
  judge("nccl.absent_peer",
        state == ncclInProgress && gone >= 0 && in_all < kMost_s && after == cudaSuccess,
        text("after 2 s it is %s; abort %s, %.1f s in all (3 at most); the GPU then: %s",
             ncclGetErrorString(state), returned(gone).c_str(), in_all, cudaGetErrorString(after)));
}

void ask_nccl_one_gpu_twice() {
  const ncclUniqueId id = meeting_point();
  std::array<ncclResult_t, 2> state{};
  std::array<std::thread, 2> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = std::thread([&, rank] {
      ncclConfig_t config = edge();
      ncclComm_t comm = nullptr;
      state[rank] = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
      if (state[rank] == ncclSuccess || state[rank] == ncclInProgress) {
        state[rank] = await_end(comm, 10);
      }
    });
  }
  for (std::thread& rank : ranks)
    rank.join();
  const auto refused = [](ncclResult_t r) { return r != ncclSuccess && r != ncclInProgress; };
  judge("nccl.one_gpu_twice", refused(state[0]) && refused(state[1]),
        text("two ranks on one GPU: %s, %s (refused)", ncclGetErrorString(state[0]),
             ncclGetErrorString(state[1])));
}

}  // namespace grapevine::facts
