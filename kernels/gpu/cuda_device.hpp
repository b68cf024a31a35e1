// CudaDevice: the Device that is a GPU. It exists in every build, and a program that has it starts
// without a driver.
//
// Thin on purpose: one call of the CUDA runtime for each call of Device, and a Fate made of the
// answer. A CUDA call that only a bug of ours can make fail ends the process with the call and
// CUDA's message. Any other failure loses the device, with one line. The code above the interface
// is tested with the adversary, without a GPU.
//
// How its owner learns that an event has happened: when() makes a second stream wait for the event
// and then call a function of the host, which only wakes a thread of the device. This thread polls
// the awaited events and makes the given calls. CUDA calls no function after an error, so the
// thread also polls every 10 ms.
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

/// Asks CUDA, unless the environment does already, for more of the hardware's queues than the eight
/// of the default: streams that share one hold each other up. Whatever asks for GPUs does so, too,
/// but CUDA looks once, when the process first uses it, and LibTorch may be the first; and while
/// other threads read the environment it must not be written.
void prepare_cuda();

/// GPUs that this process may use; 0 without a driver, or where this build has no CUDA.
int cuda_device_count();

/// The GPU with the most free memory, as the driver's management library tells without opening a
/// context; the first GPU if the library does not tell. REQUIRES: there is one.
int emptiest_cuda_device();

/// Errors (user): there is no such GPU, in one line with CUDA's reason.
Result<CudaFacts> cuda_facts(int number);
Result<std::unique_ptr<Device>> open_cuda_device(int number);

}  // namespace grapevine
