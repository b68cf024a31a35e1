#include "kernels/gpu/cuda_device.hpp"

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/mutex.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine {
namespace {

/// A function of the driver, looked up at its first use, so that the program starts without a
/// driver. Null: the driver has no function of this name.
template <class Function>
Function driver_call(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how;
  constexpr unsigned kVersion = 12000;
  if (cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &how) !=
      cudaSuccess) {
    cudaGetLastError();  // so that the next caller does not see this error
    found = nullptr;
  }
  return reinterpret_cast<Function>(found);
}
#define GV_DRIVER(name) driver_call<decltype(&::name)>(#name)

enum class Meaning { fine, later, out_of_memory, our_bug, lost };

Meaning meaning(cudaError_t answer) {
  switch (answer) {
    case cudaSuccess: return Meaning::fine;
    case cudaErrorNotReady: return Meaning::later;
    case cudaErrorMemoryAllocation: return Meaning::out_of_memory;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice: return Meaning::our_bug;
    default: return Meaning::lost;  // an illegal address, ECC, a time-out, off the bus, ...
  }
}

Meaning meaning(CUresult answer) {
  switch (answer) {
    case CUDA_SUCCESS: return Meaning::fine;
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED: return Meaning::out_of_memory;
    case CUDA_ERROR_INVALID_VALUE: return Meaning::our_bug;
    default: return Meaning::lost;
  }
}

/// Memory of one GPU. Only blocks of kind `shared` ask for memory that can be shared: a hypervisor
/// or a container may refuse it.
CUmemAllocationProp memory_of(int number, Block::Kind kind) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  if (kind == Block::Kind::shared)
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = number;
  return p;
}

/// A stream of work, and its bell: a stream that calls host functions when an event has happened.
struct Line {
  cudaStream_t work = nullptr, bell = nullptr;
  int priority = 0;
};

/// No stream is ever destroyed. LibTorch keeps the streams on which its pinned memory was used, and
/// records on them when that memory is freed, long after a run. The next device of the process
/// reuses the streams of the last one, and so finds LibTorch's caches, which are per stream.
class KeptLines {
 public:
  static KeptLines& of_process() {
    static auto* const all = new KeptLines;  // a device may be destroyed at the end of the process
    return *all;
  }
  std::optional<Line> take(int number, int priority) {
    const Lock lock(mutex_);
    std::vector<Line>& kept = kept_[{number, priority}];
    if (kept.empty()) return {};
    const Line line = kept.back();
    kept.pop_back();
    return line;
  }
  void keep(int number, const Line& line) {
    const Lock lock(mutex_);
    kept_[{number, line.priority}].push_back(line);
  }

 private:
  Mutex mutex_;
  // By GPU and priority.
  std::map<std::pair<int, int>, std::vector<Line>> kept_ GV_GUARDED_BY(mutex_);
};

class CudaDevice final : public Device {
 public:
  /// Device memory comes in multiples of `granularity` bytes.
  CudaDevice(int number, size_t granularity)
      : number_(number),
        granularity_(granularity),
        watched_(std::make_unique<Watched>()),
        watcher_([this] { watch(); }) {}
  ~CudaDevice() override;

  Fate allocate(size_t bytes, Block::Kind, Block& out) override;
  Fate free(const Block&, Where) override;
  Fate pin(const Access&, Where) override;
  void unpin(void* data) override;
  Fate make_stream(bool urgent, Stream& out) override;
  Fate make_event(Event& out) override;
  Fate record(Event, Stream, Where) override;
  Fate wait(Stream, Event, Where) override;
  Fate query(Event, Where) override;
  Fate copy(Stream, void* to, const void* from, size_t bytes, Where) override;
  Fate launch(Stream, std::span<const Access>, Body, Where) override;
  void when(Event, std::function<void(Fate)> then, Where) override;
  Fate drain() override;
  void on_lost(std::function<void()> then) override;
  void give_up() override { static_cast<void>(lose("what was queued", "it has not ended")); }
  Fate share(const Block&, int& descriptor) override;
  Fate open(int descriptor, size_t bytes, Block& out) override;

 private:
  struct Awaited {
    cudaEvent_t event;
    std::function<void(Fate)> then;
  };
  /// The state that the device's thread, its callbacks and the owner share.
  struct Watched {
    Mutex mutex;
    std::condition_variable wake;
    std::vector<Awaited> awaited GV_GUARDED_BY(mutex);
    std::function<void()> on_lost GV_GUARDED_BY(mutex);
    bool stops GV_GUARDED_BY(mutex) = false, rung GV_GUARDED_BY(mutex) = false;
  };

  bool enter();
  Fate fate(Meaning, const char* call, const char* words);
  Fate fate(cudaError_t answer, const char* call) {
    return fate(meaning(answer), call, cudaGetErrorString(answer));
  }
  Fate fate(CUresult answer, const char* call) {
    return fate(meaning(answer), call, ("driver error " + std::to_string(answer)).c_str());
  }
  Fate lose(const char* call, const char* words);
  size_t padded(size_t bytes) const {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }
  enum class Whose { ours, theirs };
  Fate map(CUmemGenericAllocationHandle, size_t bytes, Whose, Block& out);
  static void ring(void* watched);
  void watch();
  std::vector<Awaited> ask(std::vector<Awaited> awaited);

  static constexpr std::chrono::milliseconds kBelt{10};
  // A limit for sizes that other processes claim.
  static constexpr size_t kMostAddresses = size_t{1} << 47;

  const int number_;
  const size_t granularity_;
  std::atomic<bool> lost_{false};
  std::vector<Line> lines_;  // by stream
  std::vector<cudaEvent_t> events_;
  std::vector<uint32_t> recorded_on_;  // by event: the stream
  std::map<const std::byte*, CUmemGenericAllocationHandle> handles_;
  std::unique_ptr<Watched> watched_;
  std::thread watcher_;  // last: it starts after all else is made
};

CudaDevice::~CudaDevice() {
  {
    const Lock lock(watched_->mutex);
    watched_->stops = true;
  }
  watched_->wake.notify_one();
  watcher_.join();
  for (const Awaited& left : std::exchange(watched_->awaited, {}))
    left.then(Fate::lost);
  if (!enter()) {  // no call would succeed: the end of the process frees the rest
    static_cast<void>(watched_.release());  // a device that was only slow may still ring
    return;
  }
  for (cudaEvent_t event : events_)
    cudaEventDestroy(event);
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    cudaStreamSynchronize(line->bell);  // after this it does not ring
    KeptLines::of_process().keep(number_, *line);
  }
}

/// The owner may call on any thread; each thread has its own current device.
bool CudaDevice::enter() {
  return !lost_ && fate(cudaSetDevice(number_), "cudaSetDevice") == Fate::ok;
}

Fate CudaDevice::fate(Meaning meaning, const char* call, const char* words) {
  switch (meaning) {
    case Meaning::fine: return Fate::ok;
    case Meaning::later: return Fate::later;
    case Meaning::out_of_memory: cudaGetLastError(); return Fate::out_of_memory;
    case Meaning::our_bug: check_detail::fail(__FILE__, __LINE__, call, words);
    case Meaning::lost: break;
  }
  return lose(call, words);
}

Fate CudaDevice::lose(const char* call, const char* words) {
  std::function<void()> tell;
  {
    const Lock lock(watched_->mutex);
    if (!lost_.exchange(true)) {
      std::fprintf(stderr, "gpu %d is lost: %s: %s\n", number_, call, words);
    }
    tell = std::exchange(watched_->on_lost, {});
  }
  watched_->wake.notify_one();
  if (tell) tell();
  return Fate::lost;
}

// --- memory, by CUDA's virtual memory calls, so that other processes can open it

Fate CudaDevice::allocate(size_t bytes, Block::Kind kind, Block& out) {
  if (!enter()) return Fate::lost;
  if (kind == Block::Kind::pinned) {
    void* data = nullptr;
    const Fate f = fate(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    out = {static_cast<std::byte*>(data), bytes, kind};
    return f;
  }
  const CUmemAllocationProp p = memory_of(number_, kind);
  CUmemGenericAllocationHandle memory = 0;
  Fate f = fate(GV_DRIVER(cuMemCreate)(&memory, padded(bytes), &p, 0), "cuMemCreate");
  if (f == Fate::ok) f = map(memory, bytes, Whose::ours, out);
  if (f == Fate::ok) out.kind = kind;
  return f;
}

/// The kind and size of another process's memory are unknown. So any refusal by the driver is an
/// answer here, not a bug in this code or the loss of the device; the next call would find a loss.
Fate CudaDevice::map(CUmemGenericAllocationHandle memory, size_t bytes, Whose whose, Block& out) {
  const auto answered = [&](CUresult answer, const char* call) {
    const bool refused = whose == Whose::theirs && meaning(answer) != Meaning::fine;
    return refused ? Fate::out_of_memory : fate(answer, call);
  };
  CUdeviceptr at = 0;
  bool is_mapped = false;
  Fate f =
      answered(GV_DRIVER(cuMemAddressReserve)(&at, padded(bytes), 0, 0, 0), "cuMemAddressReserve");
  if (f == Fate::ok) {
    f = answered(GV_DRIVER(cuMemMap)(at, padded(bytes), 0, memory, 0), "cuMemMap");
    is_mapped = f == Fate::ok;
  }
  if (f == Fate::ok) {
    CUmemAccessDesc access{};
    access.location = memory_of(number_, Block::Kind::device).location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    f = answered(GV_DRIVER(cuMemSetAccess)(at, padded(bytes), &access, 1), "cuMemSetAccess");
  }
  if (f == Fate::ok) {
    out = {reinterpret_cast<std::byte*>(at), bytes, Block::Kind::device};
    handles_[out.data] = memory;
  } else if (!lost_) {
    if (is_mapped) GV_DRIVER(cuMemUnmap)(at, padded(bytes));
    if (at != 0) GV_DRIVER(cuMemAddressFree)(at, padded(bytes));
    GV_DRIVER(cuMemRelease)(memory);
  }
  return f;
}

Fate CudaDevice::free(const Block& block, Where) {
  if (!enter()) return Fate::lost;
  if (block.kind == Block::Kind::pinned) return fate(cudaFreeHost(block.data), "cudaFreeHost");
  const auto found = handles_.find(block.data);
  GV_CHECK((found != handles_.end()));
  const auto at = reinterpret_cast<CUdeviceptr>(block.data);
  const CUmemGenericAllocationHandle memory = found->second;
  handles_.erase(found);
  Fate f = fate(GV_DRIVER(cuMemUnmap)(at, padded(block.bytes)), "cuMemUnmap");
  if (f == Fate::ok) f = fate(GV_DRIVER(cuMemRelease)(memory), "cuMemRelease");
  if (f != Fate::ok) return f;
  return fate(GV_DRIVER(cuMemAddressFree)(at, padded(block.bytes)), "cuMemAddressFree");
}

/// The system decides which memory can be pinned. So any refusal is an answer; the next call finds
/// the loss of the device.
Fate CudaDevice::pin(const Access& memory, Where) {
  if (!enter()) return Fate::lost;
  const unsigned how = memory.mode == Access::Mode::reads ? cudaHostRegisterReadOnly : 0;
  if (cudaHostRegister(const_cast<void*>(memory.data), memory.bytes,
                       cudaHostRegisterPortable | how) == cudaSuccess)
    return Fate::ok;
  cudaGetLastError();
  return Fate::out_of_memory;
}

void CudaDevice::unpin(void* data) {
  if (enter()) cudaHostUnregister(data);
}

Fate CudaDevice::share(const Block& block, int& descriptor) {
  GV_CHECK((block.kind == Block::Kind::shared));
  if (!enter()) return Fate::lost;
  const Fate f =
      fate(GV_DRIVER(cuMemExportToShareableHandle)(&descriptor, handles_.at(block.data),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
           "cuMemExportToShareableHandle");
  // A child process that inherits it would keep the memory after this process ends.
  if (f == Fate::ok) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return f;
}

Fate CudaDevice::open(int descriptor, size_t bytes, Block& out) {
  if (!enter()) return Fate::lost;
  if (bytes == 0 || bytes > kMostAddresses) return Fate::out_of_memory;
  CUmemGenericAllocationHandle memory = 0;
  void* const handle = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  const CUresult answer = GV_DRIVER(cuMemImportFromShareableHandle)(
      &memory, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (meaning(answer) != Meaning::fine) return Fate::out_of_memory;  // the fault of the other end
  return map(memory, bytes, Whose::theirs, out);
}

// --- order

Fate CudaDevice::make_stream(bool urgent, Stream& out) {
  if (!enter()) return Fate::lost;
  int least = 0;
  int greatest = 0;
  Fate f = fate(cudaDeviceGetStreamPriorityRange(&least, &greatest), "the range of priorities");
  if (f != Fate::ok) return f;
  Line line{.priority = urgent ? greatest : least};
  if (const auto kept = KeptLines::of_process().take(number_, line.priority)) {
    line = *kept;
  } else {
    // The bell has the same priority as its stream, so work of a lower priority does not delay it.
    for (cudaStream_t* const made : {&line.work, &line.bell}) {
      f = fate(cudaStreamCreateWithPriority(made, cudaStreamNonBlocking, line.priority),
               "cudaStreamCreateWithPriority");
      if (f != Fate::ok) return f;
    }
  }
  out.id = static_cast<uint32_t>(lines_.size());
  lines_.push_back(line);
  return f;
}

Fate CudaDevice::make_event(Event& out) {
  if (!enter()) return Fate::lost;
  cudaEvent_t event = nullptr;
  const Fate f = fate(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  if (f != Fate::ok) return f;
  out.id = static_cast<uint32_t>(events_.size());
  events_.push_back(event);
  recorded_on_.push_back(0);
  return f;
}

Fate CudaDevice::record(Event e, Stream s, Where) {
  if (!enter()) return Fate::lost;
  recorded_on_[e.id] = s.id;
  return fate(cudaEventRecord(events_[e.id], lines_[s.id].work), "cudaEventRecord");
}

Fate CudaDevice::wait(Stream s, Event e, Where) {
  if (!enter()) return Fate::lost;
  return fate(cudaStreamWaitEvent(lines_[s.id].work, events_[e.id], 0), "cudaStreamWaitEvent");
}

Fate CudaDevice::query(Event e, Where) {
  if (!enter()) return Fate::lost;
  return fate(cudaEventQuery(events_[e.id]), "cudaEventQuery");
}

// --- work

Fate CudaDevice::copy(Stream s, void* to, const void* from, size_t bytes, Where) {
  if (!enter()) return Fate::lost;
  return fate(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, lines_[s.id].work),
              "cudaMemcpyAsync");
}

Fate CudaDevice::launch(Stream s, std::span<const Access> accesses, Body body, Where) {
  if (!enter()) return Fate::lost;
  void* where[kMostAccesses];
  GV_CHECK(accesses.size() <= kMostAccesses);
  for (size_t k = 0; k < accesses.size(); ++k)
    where[k] = const_cast<void*>(accesses[k].data);
  body(lines_[s.id].work, where);
  const Fate f = fate(cudaGetLastError(), "a pass");
  // An event that has not happened is no failure of the pass.
  return f == Fate::later ? Fate::ok : f;
}

// --- notification of the owner

void CudaDevice::when(Event e, std::function<void(Fate)> then, Where) {
  const bool works = enter();
  bool is_first = false;
  {
    const Lock lock(watched_->mutex);
    is_first = watched_->awaited.empty();
    watched_->awaited.push_back({works ? events_[e.id] : nullptr, std::move(then)});
  }
  // The thread is woken to poll this event from now on.
  if (is_first || !works) watched_->wake.notify_one();
  if (!works) return;
  const cudaStream_t bell = lines_[recorded_on_[e.id]].bell;
  if (fate(cudaStreamWaitEvent(bell, events_[e.id], 0), "cudaStreamWaitEvent") != Fate::ok) return;
  static_cast<void>(fate(cudaLaunchHostFunc(bell, ring, watched_.get()), "cudaLaunchHostFunc"));
}

Fate CudaDevice::drain() {
  if (!enter()) return Fate::lost;
  return fate(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void CudaDevice::on_lost(std::function<void()> then) {
  bool was_lost = false;
  {
    const Lock lock(watched_->mutex);
    was_lost = lost_;
    if (!was_lost) std::swap(watched_->on_lost, then);  // `then` is destroyed outside of the lock
  }
  if (was_lost && then) then();
}

/// CUDA calls it on a thread of its own, where no call of CUDA is allowed.
void CudaDevice::ring(void* watched) {
  auto* const all = static_cast<Watched*>(watched);
  const Lock lock(all->mutex);
  all->rung = true;
  all->wake.notify_one();
}

/// The loop of the device's own thread.
void CudaDevice::watch() {
  Watched& w = *watched_;
  Lock lock(w.mutex);
  while (!w.stops) {
    const auto is_rung = [&w] { return w.stops || w.rung; };
    if (w.awaited.empty()) {
      w.wake.wait(lock, [&] { return is_rung() || !w.awaited.empty(); });
    } else {
      w.wake.wait_for(lock, kBelt, is_rung);
    }
    w.rung = false;
    std::vector<Awaited> asked = std::exchange(w.awaited, {});
    lock.unlock();
    std::vector<Awaited> later = ask(std::move(asked));
    lock.lock();
    for (Awaited& a : later)
      w.awaited.push_back(std::move(a));
  }
}

/// Returns those whose event has not happened.
std::vector<CudaDevice::Awaited> CudaDevice::ask(std::vector<Awaited> awaited) {
  std::vector<Awaited> later;
  for (Awaited& a : awaited) {
    const Fate f = enter() ? fate(cudaEventQuery(a.event), "cudaEventQuery") : Fate::lost;
    if (f == Fate::later) {
      later.push_back(std::move(a));
    } else {
      a.then(f);
    }
  }
  return later;
}

Error none(int number, cudaError_t answer) {
  cudaGetLastError();  // clears the error
  return user_error("no GPU " + std::to_string(number) + ": " + cudaGetErrorString(answer));
}

}  // namespace

void prepare_cuda() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

int cuda_device_count() {
  prepare_cuda();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

namespace {

/// The needed part of NVML: looked up at run time, never linked.
class Management {
 public:
  Management() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto begin = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    if (begin == nullptr || begin() != 0) return;
    find_ = reinterpret_cast<Find>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    ask_ = reinterpret_cast<Ask>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
  }
  /// 0: NVML does not say.
  unsigned long long free_bytes(int number) const {
    char address[32] = {};
    void* device = nullptr;
    Memory memory{};
    const bool told = find_ != nullptr && ask_ != nullptr &&
                      cudaDeviceGetPCIBusId(address, sizeof address, number) == cudaSuccess &&
                      find_(address, &device) == 0 && ask_(device, &memory) == 0;
    return told ? memory.free : 0;
  }

 private:
  struct Memory {
    unsigned long long total, free, used;
  };
  using Find = int (*)(const char* address, void** device);
  using Ask = int (*)(void* device, Memory*);
  Find find_ = nullptr;
  Ask ask_ = nullptr;
};

}  // namespace

int emptiest_cuda_device() {
  const int count = cuda_device_count();
  if (count < 2) return 0;
  const Management management;
  std::vector<unsigned long long> free;
  for (int number = 0; number < count; ++number)
    free.push_back(management.free_bytes(number));
  return static_cast<int>(std::max_element(free.begin(), free.end()) - free.begin());
}

Result<CudaFacts> cuda_facts(int number) {
  prepare_cuda();
  int count = 0;
  cudaError_t answer = cudaGetDeviceCount(&count);
  if (answer == cudaSuccess && (number < 0 || number >= count)) answer = cudaErrorInvalidDevice;
  CudaFacts facts;
  cudaDeviceProp properties{};
  if (answer == cudaSuccess) answer = cudaSetDevice(number);
  if (answer == cudaSuccess) answer = cudaMemGetInfo(&facts.free_bytes, &facts.memory_bytes);
  if (answer == cudaSuccess) answer = cudaGetDeviceProperties(&properties, number);
  if (answer == cudaSuccess) answer = cudaDriverGetVersion(&facts.driver);
  if (answer != cudaSuccess) return none(number, answer);
  facts.name = properties.name;
  facts.copy_engines = properties.asyncEngineCount;
  int shares = 0;
  GV_DRIVER(cuDeviceGetAttribute)
  (&shares, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, number);
  facts.shares_memory = shares != 0;
  return facts;
}

Result<std::unique_ptr<Device>> open_cuda_device(int number) {
  const Result<CudaFacts> facts = cuda_facts(number);
  if (!facts) return facts.error();
  const auto kind = facts->shares_memory ? Block::Kind::shared : Block::Kind::device;
  const CUmemAllocationProp p = memory_of(number, kind);
  size_t granularity = 0;
  const auto ask = GV_DRIVER(cuMemGetAllocationGranularity);
  if (ask == nullptr || ask(&granularity, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) {
    return user_error("GPU " + std::to_string(number) + " (" + facts->name +
                      "): its driver has no virtual memory calls, accepted: driver 11.2 or newer");
  }
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(number, granularity));
}

}  // namespace grapevine
