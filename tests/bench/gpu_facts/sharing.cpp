// Memory of another process on the same GPU, exported and mapped by the virtual memory calls: read
// where it lies, while its owner frees it, faults, or is killed.
#include <unistd.h>

#include <cstring>

#include "tests/bench/gpu_facts/processes.hpp"
#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"
#include "tests/bench/gpu_facts/work.hpp"

namespace grapevine::facts {
namespace {

constexpr size_t kBytes = size_t{256} << 20;
constexpr size_t kWords = kBytes / sizeof(unsigned);
constexpr unsigned kValue = 0xABCD1234;

CUmemAllocationProp exported() {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = 0;
  return p;
}

/// One block of 256 MiB, mapped here.
class Mapped {
 public:
  static Mapped fresh() {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp p = exported();
    must(cudaFree(nullptr));  // the context
    must(GV_FACTS_DRIVER(cuMemCreate)(&handle, kBytes, &p, 0));
    return Mapped(handle);
  }
  /// Maps the memory that the partner has sent; the descriptor is closed at once.
  static Mapped from(const Partner& partner) {
    must(cudaFree(nullptr));
    int descriptor = -1;
    partner.hear(&descriptor);
    if (descriptor < 0) give_up("no descriptor came");
    CUmemGenericAllocationHandle handle = 0;
    must(GV_FACTS_DRIVER(cuMemImportFromShareableHandle)(
        &handle, reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor)),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    return Mapped(handle);
  }

  /// Driver's answer to a mapping with these rights.
  CUresult grant(CUmemAccess_flags rights) const {
    CUmemAccessDesc access{};
    access.location = exported().location;
    access.flags = rights;
    return GV_FACTS_DRIVER(cuMemSetAccess)(at_, kBytes, &access, 1);
  }
  int share() const {
    int descriptor = -1;
    must(GV_FACTS_DRIVER(cuMemExportToShareableHandle)(
        &descriptor, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return descriptor;
  }
  void unmap() {
    must(GV_FACTS_DRIVER(cuMemUnmap)(at_, kBytes));
    must(GV_FACTS_DRIVER(cuMemRelease)(handle_));
    must(GV_FACTS_DRIVER(cuMemAddressFree)(at_, kBytes));
  }
  unsigned* words() const { return reinterpret_cast<unsigned*>(at_); }

 private:
  explicit Mapped(CUmemGenericAllocationHandle handle) : handle_(handle) {
    must(GV_FACTS_DRIVER(cuMemAddressReserve)(&at_, kBytes, 0, 0, 0));
    must(GV_FACTS_DRIVER(cuMemMap)(at_, kBytes, 0, handle_, 0));
  }
  CUmemGenericAllocationHandle handle_;
  CUdeviceptr at_ = 0;
};

Mapped import_from(const Partner& partner) {
  const Mapped mapped = Mapped::from(partner);
  must(mapped.grant(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  return mapped;
}

double mib(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

void play_exporter() {
  Mapped mapped = Mapped::fresh();
  must(mapped.grant(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  const cudaStream_t stream = make_stream();
  fill(stream, mapped.words(), kWords, kValue);
  must(cudaStreamSynchronize(stream));  // the message goes when the data is there
  const int descriptor = mapped.share();
  answer("memory", descriptor);
  close(descriptor);
  for (std::string word; told(word);) {
    if (word == "free") mapped.unmap();
    if (word == "fault") {
      write_wildly(stream);
      answer(cudaGetErrorName(cudaStreamSynchronize(stream)));
    } else {
      answer(word);
    }
  }
}

void ask_vmm() {
  Partner partner("exporter");
  const Mapped mapped = import_from(partner);
  const cudaStream_t stream = make_stream();
  const auto whole = [&] { return others(stream, mapped.words(), kWords, kValue) == 0; };
  const bool seen = whole();
  judge("vmm.read_in_place", seen,
        text("256 MiB of another process on this GPU, read where they lie, %s",
             seen ? "are what it wrote" : "DIFFER"));
  std::vector<double> there_and_back;
  for (int k = 0; k < 300; ++k) {
    there_and_back.push_back(took_s([&] {
      partner.tell("echo");
      partner.hear();
    }));
  }
  say("vmm.host_fence",
      text("a message there and back takes %.1f us: what a fence of the host adds",
           median(there_and_back) * 1e6));
  partner.tell("free");
  partner.hear();
  const bool kept = whole();
  judge("vmm.exporter_frees", kept,
        text("after the exporter has unmapped and released them they are %s",
             kept ? "whole" : "GONE"));
}

/// kill -9 of the exporter while a kernel of ours reads its memory, which it still has mapped.
void ask_killed() {
  Partner partner("exporter");
  Mapped mapped = import_from(partner);
  const cudaStream_t stream = make_stream();
  auto* const over = static_cast<volatile int*>(pinned_memory(sizeof(int)));
  auto* const differ = static_cast<unsigned*>(device_memory(sizeof(unsigned)));
  watch(stream, mapped.words(), kWords, kValue, const_cast<const int*>(over), differ);
  const size_t before = free_bytes();
  partner.kill();
  nap(0.2);  // the kernel reads on behind its death
  const bool reads = cudaStreamQuery(stream) == cudaErrorNotReady;
  *over = 1;
  const cudaError_t answer = cudaStreamSynchronize(stream);
  unsigned wrong = 0;
  if (answer == cudaSuccess) must(cudaMemcpy(&wrong, differ, sizeof wrong, cudaMemcpyDefault));
  judge("vmm.killed_while_read", answer == cudaSuccess && wrong == 0,
        text("kill -9 of the exporter %s a kernel of ours reads: %s, %u words differ",
             reads ? "while" : "AFTER", cudaGetErrorString(answer), wrong));
  must(answer);
  // Its context and its own mapping go; the memory only when we let go of it.
  eventually([&] { return free_bytes() > before; }, 2);
  const size_t after_kill = free_bytes();
  const bool whole = others(stream, mapped.words(), kWords, kValue) == 0;
  mapped.unmap();
  const size_t after_unmap = free_bytes();
  judge("vmm.killed", whole && after_unmap >= after_kill + kBytes,
        text("our mapping of what the dead exported is %s; free memory %.0f MiB before, %.0f after "
             "its death, %.0f after we unmapped its 256",
             whole ? "whole" : "GONE", mib(before), mib(after_kill), mib(after_unmap)));
}

void ask_exporter_faults() {
  Partner partner("exporter");
  const Mapped mapped = import_from(partner);
  const cudaStream_t stream = make_stream();
  partner.tell("fault");
  const std::string theirs = partner.hear();
  std::string ours = "goes on", memory = "GONE";
  bool whole = false;
  try {
    whole = others(stream, mapped.words(), kWords, kValue) == 0;
    memory = whole ? "whole" : "CHANGED";
  } catch (const NoAnswer& broken) {
    ours = broken.what();
  }
  judge("vmm.exporter_faults", whole && theirs != "cudaSuccess",
        "the exporter's fault: " + theirs + "; the importer on the same GPU: " + ours +
            "; the memory is " + memory);
}

/// Whether a peer can be kept from writing what it maps.
void ask_read_only() {
  const Mapped mapped = Mapped::fresh();
  const CUresult granted = mapped.grant(CU_MEM_ACCESS_FLAGS_PROT_READ);
  if (granted != CUDA_SUCCESS) {
    return say("vmm.read_only", text("a mapping for reading alone is refused (driver error %d): a "
                                     "peer can write",
                                     static_cast<int>(granted)));
  }
  const cudaStream_t stream = make_stream();
  fill(stream, mapped.words(), 1, kValue);
  say("vmm.read_only", text("a mapping for reading alone is granted; a write there: %s",
                            cudaGetErrorString(cudaStreamSynchronize(stream))));
}

}  // namespace grapevine::facts
