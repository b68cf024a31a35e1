// Stands for the driver's library for management: three GPUs, the second with the most free memory.
#include <cstdint>

extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(address[0] - '0') + 1);
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  constexpr unsigned long long kFree[] = {3, 9, 5};
  memory[1] = kFree[reinterpret_cast<uintptr_t>(device) - 1];
  return 0;
}

}  // extern "C"
