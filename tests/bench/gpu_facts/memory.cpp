// The GPU itself, copies to and from memory that other processes may map, and which allocations
// wait for what runs.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"
#include "tests/bench/gpu_facts/work.hpp"

namespace grapevine::facts {
namespace {

constexpr size_t kBytes = size_t{400} << 20;

double rate(cudaStream_t stream, void* to, const void* from) {
  const double seconds = on_stream_s(
      stream, [&] { must(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, stream)); });
  return kBytes / seconds * 1e-9;
}

/// Both ways at the same time, on a stream each.
double rate_both_ways(void* device_out, void* out, const void* in, void* device_in) {
  const cudaStream_t from = make_stream(), towards = make_stream();
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    times.push_back(took_s([&] {
      must(cudaMemcpyAsync(out, device_out, kBytes, cudaMemcpyDefault, from));
      must(cudaMemcpyAsync(device_in, in, kBytes, cudaMemcpyDefault, towards));
      must(cudaDeviceSynchronize());
    }));
  }
  return 2 * kBytes / median(times) * 1e-9;
}

void ask_memfd(cudaStream_t stream, void* there, double pinned_rate) {
  const int fd = memfd_create("slots", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, kBytes) != 0) give_up("no memfd");
  const auto map = [&](int protection) {
    void* const at = mmap(nullptr, kBytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (at == MAP_FAILED) give_up("no mapping of a memfd");
    return at;
  };
  constexpr double kShare = 0.9;
  void* const ours = map(PROT_READ | PROT_WRITE);
  cudaError_t registered = cudaSuccess;
  const double took =
      took_s([&] { registered = cudaHostRegister(ours, kBytes, cudaHostRegisterDefault); });
  if (registered != cudaSuccess) {
    judge("memfd.register", false, cudaGetErrorString(registered));
  } else {
    const double into = rate(stream, ours, there);
    judge("memfd.register", into >= kShare * pinned_rate,
          text("%.0f ms for 400 MiB; a copy into it %.1f GB/s, into pinned memory %.1f", took * 1e3,
               into, pinned_rate));
  }
  cudaGetLastError();
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) give_up("no seals");
  void* const theirs = map(PROT_READ);
  registered = cudaHostRegister(theirs, kBytes, cudaHostRegisterReadOnly);
  if (registered != cudaSuccess) {
    return judge("memfd.read_only", false, cudaGetErrorString(registered));
  }
  const double out = rate(stream, there, theirs);
  judge("memfd.read_only", out >= kShare * pinned_rate,
        text("a copy straight out of a peer's memfd, mapped for reading alone: %.1f GB/s", out));
}

}  // namespace

void ask_device() {
  cudaDeviceProp about{};
  int driver = 0, runtime = 0;
  must(cudaGetDeviceProperties(&about, 0));
  must(cudaDriverGetVersion(&driver));
  must(cudaRuntimeGetVersion(&runtime));
  say("device", text("%s, compute capability %d.%d, %d processors, L2 %d MB, memory %.1f GB, free "
                     "%.1f GB, %d copy engines; CUDA %d.%d, the driver's %d.%d",
                     about.name, about.major, about.minor, about.multiProcessorCount,
                     about.l2CacheSize >> 20, static_cast<double>(about.totalGlobalMem) * 1e-9,
                     static_cast<double>(free_bytes()) * 1e-9, about.asyncEngineCount,
                     runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10));
  const auto can = [ask = GV_FACTS_DRIVER(cuDeviceGetAttribute)](CUdevice_attribute what) {
    int value = 0;
    must(ask(&value, what, 0));
    return value != 0 ? "yes" : "no";
  };
  say("device.can",
      text("virtual memory calls %s, descriptors of memory %s, registering for reading alone %s",
           can(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
           can(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
           can(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)));
}

void ask_copy() {
  const cudaStream_t stream = make_stream();
  void *const a = device_memory(kBytes), *const b = device_memory(kBytes);
  void *const out = pinned_memory(kBytes), *const in = pinned_memory(kBytes);
  const double pinned_rate = rate(stream, out, a);
  say("copy", text("GB/s of 400 MiB: within the GPU %.0f read and written, to pinned memory %.1f, "
                   "from it %.1f, both at once %.1f together",
                   2 * rate(stream, b, a), pinned_rate, rate(stream, b, in),
                   rate_both_ways(a, out, in, b)));
  ask_memfd(stream, b, pinned_rate);
}

/// Why everything is allocated at the start.
void ask_allocate() {
  constexpr size_t kSome = size_t{64} << 20;
  constexpr double kWork_s = 0.2;
  const cudaStream_t stream = make_stream();
  void *fresh = nullptr, *pinned = nullptr, *const old = device_memory(kSome);
  const std::unique_ptr<char[]> plain(new char[kSome]());
  const auto beside_work = [&](const std::function<cudaError_t()>& call) {
    spin(stream, kWork_s);
    cudaError_t answer = cudaSuccess;
    const double took = took_s([&] { answer = call(); });
    const bool runs = cudaStreamQuery(stream) == cudaErrorNotReady;
    must(cudaStreamSynchronize(stream));
    return text("%.2f ms%s%s", took * 1e3, runs ? "" : ", WAITED",
                answer == cudaSuccess ? "" : ", failed");
  };
  const std::string allocate = beside_work([&] { return cudaMalloc(&fresh, kSome); });
  const std::string pin = beside_work([&] { return cudaHostAlloc(&pinned, kSome, 0); });
  const std::string with = beside_work([&] { return cudaHostRegister(plain.get(), kSome, 0); });
  const std::string free = beside_work([&] { return cudaFree(old); });
  say("allocate.while_busy", "64 MiB beside a kernel of 200 ms: cudaMalloc " + allocate +
                                 "; cudaHostAlloc " + pin + "; cudaHostRegister " + with +
                                 "; cudaFree " + free);
}

}  // namespace grapevine::facts
