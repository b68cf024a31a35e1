// CudaDevice: the Device for a GPU. It exists in every build; a program with it starts without a
// driver.
//
// It is thin on purpose: each call of Device makes one call of the CUDA runtime and turns the
// answer into a Fate. If only a bug in this code can cause the answer, the process ends with the
// call and CUDA's message. Any other failure loses the device, with one line. The code above the
// interface is tested with the adversary, without a GPU.
//
// The owner learns of events as follows. when() makes a second stream wait for the event
// and then call a host function, which only wakes a thread of the device. This thread polls the
// awaited events and makes the calls. CUDA calls no function after an error, so the thread also
// polls every 10 ms.
#pragma once
#include <memory>
#include <string>

#include "kernels/base/result.hpp"
#include "kernels/device/device.hpp"

namespace grapevine {

struct CudaFacts {
  std::string name;
  size_t memory_bytes = 0, free_bytes = 0;
  int driver = 0;  // 12040 is 12.4
  int copy_engines = 0;
  bool shares_memory = false;  // share() and open() work
};

/// Asks CUDA for more hardware queues than its default of eight, unless the environment sets a
/// number: streams that share a queue delay each other. All code that asks for GPUs calls it, too.
/// But CUDA reads the environment once, at its first use in the process, and LibTorch may be first;
/// and the environment must not be written while other threads read it.
void prepare_cuda();

/// GPUs that this process may use; 0: no driver, or this build has no CUDA.
int cuda_device_count();

/// The GPU with the most free memory according to the driver's management library, which opens no
/// context; the first GPU if the library does not say. REQUIRES: there is one.
int emptiest_cuda_device();

/// Errors (user): there is no such GPU; one line with CUDA's reason.
Result<CudaFacts> cuda_facts(int number);
Result<std::unique_ptr<Device>> open_cuda_device(int number);

}  // namespace grapevine
