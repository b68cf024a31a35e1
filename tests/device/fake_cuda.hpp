// FakeCuda: CUDA's runtime and the driver's memory calls for tests of cuda_device.cu, which is
// compiled against it as C++. It computes nothing: what is queued has happened at once, but for
// functions of the host, which it may keep until the test lets them go. It knows which streams are
// alive, and answers with whatever error the test has set.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace grapevine::testing {

struct FakeCuda {
  struct Stream {
    int priority = 0;
    bool is_alive = true;
  };

  /// Of the process, as CUDA is.
  static FakeCuda& it();
  /// As at the start of a process, but for streams that somebody has kept.
  void begin_anew();

  cudaStream_t make_stream(int priority);
  Stream* alive(cudaStream_t);  // null: destroyed, or none that it made
  void let_go();                // calls what it has kept

  // Set by the test:
  cudaError_t fails = cudaSuccess;  // what every call answers from now on
  CUresult sharing = CUDA_SUCCESS;  // what it answers to who asks for memory to share
  bool shares = true;               // the device says that it can
  int gpus = 1;
  bool registers = true;                 // memory of the host can be pinned
  bool keeps_functions = false;          // of the host
  std::set<std::string> missing;         // calls that the driver does not have
  cudaError_t last_error = cudaSuccess;  // of cudaGetLastError

  // So far:
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<CUmemAllocationProp> asked_for;  // of memory
  std::vector<std::function<void()>> kept;
  std::map<const void*, unsigned> registered;  // with which flags

  cudaError_t answer() {
    if (fails != cudaSuccess) last_error = fails;
    return fails;
  }
};

}  // namespace grapevine::testing
