#include "tests/device/fake_cuda.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace grapevine::testing {

FakeCuda& FakeCuda::it() {
  static FakeCuda cuda;
  return cuda;
}

void FakeCuda::begin_anew() {
  auto made = std::move(streams);
  *this = {};
  streams = std::move(made);
}

cudaStream_t FakeCuda::make_stream(int priority) {
  streams.push_back(std::make_unique<Stream>(Stream{priority}));
  return reinterpret_cast<cudaStream_t>(streams.back().get());
}

FakeCuda::Stream* FakeCuda::alive(cudaStream_t stream) {
  const auto is_it = [stream](const auto& made) {
    return reinterpret_cast<cudaStream_t>(made.get()) == stream;
  };
  const auto found = std::find_if(streams.begin(), streams.end(), is_it);
  return found != streams.end() && (*found)->is_alive ? found->get() : nullptr;
}

void FakeCuda::let_go() {
  for (const auto& function : std::exchange(kept, {}))
    function();
}

namespace {

FakeCuda& cuda() { return FakeCuda::it(); }

cudaError_t on(cudaStream_t stream) {
  if (cuda().alive(stream) == nullptr) return cudaErrorContextIsDestroyed;
  return cuda().answer();
}

constexpr size_t kGranularity = size_t{2} << 20;

// --- the driver's

CUresult create(CUmemGenericAllocationHandle* memory, size_t, const CUmemAllocationProp* asked,
                unsigned long long) {
  cuda().asked_for.push_back(*asked);
  *memory = cuda().asked_for.size();
  return asked->requestedHandleTypes != 0 ? cuda().sharing : CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  *at = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(4096, bytes));
  return CUDA_SUCCESS;
}

CUresult free_addresses(CUdeviceptr at, size_t) {
  std::free(reinterpret_cast<void*>(at));
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) {
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }
CUresult unmap(CUdeviceptr, size_t) { return CUDA_SUCCESS; }
CUresult release(CUmemGenericAllocationHandle) { return CUDA_SUCCESS; }

CUresult export_handle(void* descriptor, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                       unsigned long long) {
  *static_cast<int*>(descriptor) = memfd_create("cuda", 0);
  return CUDA_SUCCESS;
}

CUresult attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = cuda().shares;
  return CUDA_SUCCESS;
}

CUresult granularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

template <class Function>
std::pair<std::string, void*> call(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace
}  // namespace grapevine::testing

using namespace grapevine::testing;

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  static const std::pair<std::string, void*> calls[] = {
      call("cuMemCreate", create),
      call("cuMemAddressReserve", reserve),
      call("cuMemAddressFree", free_addresses),
      call("cuMemMap", map),
      call("cuMemSetAccess", set_access),
      call("cuMemUnmap", unmap),
      call("cuMemRelease", release),
      call("cuMemExportToShareableHandle", export_handle),
      call("cuDeviceGetAttribute", attribute),
      call("cuMemGetAllocationGranularity", granularity)};
  for (const auto& [known, function] : calls) {
    if (known != name || cuda().missing.count(name) > 0) continue;
    *found = function;
    return cudaSuccess;
  }
  return cuda().last_error = cudaErrorSymbolNotFound;
}

const char* cudaGetErrorString(cudaError_t) { return "what the test has set"; }
cudaError_t cudaGetLastError() { return std::exchange(cuda().last_error, cuda().fails); }
cudaError_t cudaSetDevice(int) { return cuda().answer(); }
cudaError_t cudaDeviceSynchronize() { return cuda().answer(); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = cuda().gpus;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int, int number) {
  address[0] = static_cast<char>('0' + number);
  address[1] = 0;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  *free = *all = size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "a GPU that is none");
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cuda().answer();
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  *data = std::malloc(bytes);
  return cuda().answer();
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cuda().answer();
}
cudaError_t cudaHostRegister(void* data, size_t, unsigned flags) {
  if (!cuda().registers) return cuda().last_error = cudaErrorNotSupported;
  cuda().registered[data] = flags;
  return cuda().answer();
}
cudaError_t cudaHostUnregister(void* data) {
  cuda().registered.erase(data);
  return cuda().answer();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  const cudaError_t answer = on(stream);
  if (answer == cudaSuccess) std::memcpy(to, from, bytes);
  return answer;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  *stream = cuda().make_stream(priority);
  return cuda().answer();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (FakeCuda::Stream* known = cuda().alive(stream)) known->is_alive = false;
  return cuda().answer();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return on(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t, unsigned) { return on(stream); }

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const cudaError_t answer = on(stream);
  if (answer != cudaSuccess) return answer;
  cuda().kept.push_back([=] { function(data); });
  if (!cuda().keeps_functions) cuda().let_go();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(&cuda());
  return cuda().answer();
}
cudaError_t cudaEventDestroy(cudaEvent_t) { return cuda().answer(); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t stream) { return on(stream); }
cudaError_t cudaEventQuery(cudaEvent_t) {
  return cuda().keeps_functions ? cudaErrorNotReady : cuda().answer();
}

}  // extern "C"
