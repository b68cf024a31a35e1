#include "kernels/gpu/nccl.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

namespace grapevine {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));
constexpr bool is(NcclAnswer ours, ncclResult_t theirs) { return int(ours) == int(theirs); }
static_assert(is(NcclAnswer::success, ncclSuccess) &&
              is(NcclAnswer::unhandled_cuda_error, ncclUnhandledCudaError) &&
              is(NcclAnswer::system_error, ncclSystemError) &&
              is(NcclAnswer::internal_error, ncclInternalError) &&
              is(NcclAnswer::invalid_argument, ncclInvalidArgument) &&
              is(NcclAnswer::invalid_usage, ncclInvalidUsage) &&
              is(NcclAnswer::remote_error, ncclRemoteError) &&
              is(NcclAnswer::in_progress, ncclInProgress));

/// The functions of the library that this code uses.
struct Library {
  decltype(&::ncclGetVersion) get_version;
  decltype(&::ncclGetUniqueId) get_id;
  decltype(&::ncclCommInitRankConfig) init;
  decltype(&::ncclCommGetAsyncError) poll;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) receive;
  decltype(&::ncclCommAbort) abort;
  decltype(&::ncclCommDestroy) destroy;
  decltype(&::ncclGetErrorString) words;
};

/// The library is never closed: a thread that gives up a communicator may run in it to the end.
/// False: a function is missing.
bool look_up(void* opened, Library& out) {
  const auto find = [opened](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(opened, name));
    return function != nullptr;
  };
  return find(out.get_version, "ncclGetVersion") && find(out.get_id, "ncclGetUniqueId") &&
         find(out.init, "ncclCommInitRankConfig") && find(out.poll, "ncclCommGetAsyncError") &&
         find(out.group_start, "ncclGroupStart") && find(out.group_end, "ncclGroupEnd") &&
         find(out.send, "ncclSend") && find(out.receive, "ncclRecv") &&
         find(out.abort, "ncclCommAbort") && find(out.destroy, "ncclCommDestroy") &&
         find(out.words, "ncclGetErrorString");
}

NcclAnswer answer(ncclResult_t result) { return static_cast<NcclAnswer>(result); }

bool is_begun(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

NcclAnswer init(const Library& nccl, int gpu, const NcclId& id, int rank, NcclComm& out) {
  if (cudaSetDevice(gpu) != cudaSuccess) return NcclAnswer::unhandled_cuda_error;
  ncclUniqueId theirs;
  std::memcpy(&theirs, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // every call returns, and abort is safe
  config.minCTAs = 1;   // more would compete with the gradients
  config.maxCTAs = 4;
  ncclComm_t comm = nullptr;
  const ncclResult_t result = nccl.init(&comm, 2, theirs, rank, &config);
  out = comm;
  return answer(result);
}

NcclAnswer poll(const Library& nccl, NcclComm comm) {
  ncclResult_t state = ncclInProgress;
  const ncclResult_t asked = nccl.poll(static_cast<ncclComm_t>(comm), &state);
  return answer(asked == ncclSuccess ? state : asked);
}

/// Both directions in one group: separately, each could wait for the other.
NcclAnswer exchange(const Library& nccl, NcclComm comm, const NcclTransfer& t) {
  const auto c = static_cast<ncclComm_t>(comm);
  const auto stream = static_cast<cudaStream_t>(t.stream);
  ncclResult_t result = nccl.group_start();
  if (result != ncclSuccess) return answer(result);
  if (t.sent_bytes > 0) result = nccl.send(t.sent, t.sent_bytes, ncclUint8, t.peer, c, stream);
  if (is_begun(result) && t.received_bytes > 0)
    result = nccl.receive(t.received, t.received_bytes, ncclUint8, t.peer, c, stream);
  const ncclResult_t ended = nccl.group_end();
  return answer(is_begun(result) ? ended : result);
}

/// Runs on a detached thread. If no thread can start, the communicator is kept and `ended` is never
/// called.
void give_up(decltype(&::ncclCommAbort) how, NcclComm comm, std::function<void()> ended) {
  try {
    std::thread([how, comm, ended = std::move(ended)] {
      // The answer does not matter: the communicator is given up.
      static_cast<void>(how(static_cast<ncclComm_t>(comm)));
      ended();
    }).detach();
  } catch (const std::system_error&) {
  }
}

}  // namespace

Result<Nccl> load_nccl(int gpu) {
  void* const opened = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return user_error(std::string("no NCCL: ") + dlerror());
  Library nccl{};
  if (!look_up(opened, nccl)) return user_error("no NCCL: libnccl.so.2 is older than 2.14");
  Nccl out;
  if (nccl.get_version(&out.version) != ncclSuccess) out.version = 0;
  out.make_id = [nccl]() -> Result<NcclId> {
    ncclUniqueId made;
    const ncclResult_t result = nccl.get_id(&made);
    if (result != ncclSuccess) return world_error(std::string("NCCL: ") + nccl.words(result));
    NcclId id;
    std::memcpy(id.data(), &made, id.size());
    return id;
  };
  out.calls.init = [nccl, gpu](const NcclId& id, int rank, NcclComm& comm) {
    return init(nccl, gpu, id, rank, comm);
  };
  out.calls.poll = [nccl](NcclComm comm) { return poll(nccl, comm); };
  out.calls.exchange = [nccl](NcclComm comm, const NcclTransfer& t) {
    return exchange(nccl, comm, t);
  };
  out.calls.abort = [nccl](NcclComm comm, std::function<void()> ended) {
    give_up(nccl.abort, comm, std::move(ended));
  };
  out.calls.destroy = [nccl](NcclComm comm, std::function<void()> ended) {
    give_up(nccl.destroy, comm, std::move(ended));
  };
  return out;
}

}  // namespace grapevine
