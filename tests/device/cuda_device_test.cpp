// cuda_device.cu on a CUDA that is none: what it asks of CUDA, and what it leaves behind.
#include "kernels/gpu/cuda_device.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "tests/catch.hpp"
#include "tests/device/caching_host.hpp"
#include "tests/device/fake_cuda.hpp"
#include "tests/eventually.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

std::unique_ptr<Device> open_device() {
  auto opened = open_cuda_device(0);
  REQUIRE(opened);
  return std::move(*opened);
}

FakeCuda& anew() {
  FakeCuda::it().begin_anew();
  return FakeCuda::it();
}

/// The stream as a pass is given it.
cudaStream_t native(Device& device, Stream stream) {
  cudaStream_t found = nullptr;
  const auto pass = [&](void* native, void* const*) { found = static_cast<cudaStream_t>(native); };
  CHECK(device.launch(stream, {}, pass) == Fate::ok);
  return found;
}

bool can_record(cudaStream_t stream) {
  cudaEvent_t event = nullptr;
  return cudaEventCreateWithFlags(&event, 0) == cudaSuccess &&
         cudaEventRecord(event, stream) == cudaSuccess;
}

}  // namespace

TEST_CASE("memory that was used on a device's streams can be freed when the device is gone") {
  anew();
  CachingHost<cudaStream_t> libtorch(can_record);
  {
    CachingHost<cudaStream_t>::Block inputs(libtorch);
    for (int run = 0; run < 3; ++run) {
      const auto device = open_device();
      for (const bool urgent : {true, false, false}) {
        Stream stream;
        REQUIRE(device->make_stream(urgent, stream) == Fate::ok);
        inputs.copied_on(native(*device, stream));
      }
    }
  }
  CHECK_FALSE(libtorch.ends_process());
}

TEST_CASE("the next device of a process takes the streams of the last, each of its priority") {
  FakeCuda& cuda = anew();
  std::set<cudaStream_t> lanes, urgent_ones;
  size_t made = 0;
  for (int run = 0; run < 3; ++run) {
    const auto device = open_device();
    Stream urgent, lane;
    REQUIRE(device->make_stream(true, urgent) == Fate::ok);
    REQUIRE(device->make_stream(false, lane) == Fate::ok);
    urgent_ones.insert(native(*device, urgent));
    lanes.insert(native(*device, lane));
    if (run == 0) made = cuda.streams.size();
  }
  CHECK(cuda.streams.size() == made);
  CHECK(lanes.size() == 1);
  CHECK(urgent_ones.size() == 1);
  CHECK(*lanes.begin() != *urgent_ones.begin());
}

TEST_CASE("a bell has the priority of its stream") {
  FakeCuda& cuda = anew();
  const auto device = open_device();
  const size_t before = cuda.streams.size();
  Stream urgent;
  for (int k = 0; k < 8; ++k)  // more than were kept
    REQUIRE(device->make_stream(true, urgent) == Fate::ok);
  REQUIRE(cuda.streams.size() > before);
  for (size_t k = before; k < cuda.streams.size(); ++k)
    CHECK(cuda.streams[k]->priority == -5);
}

TEST_CASE("a device that was given up may still ring when it is gone") {
  FakeCuda& cuda = anew();
  auto device = open_device();
  cuda.keeps_functions = true;
  Stream stream;
  Event event;
  REQUIRE(device->make_stream(false, stream) == Fate::ok);
  REQUIRE(device->make_event(event) == Fate::ok);
  REQUIRE(device->record(event, stream) == Fate::ok);
  std::atomic<int> told{0};
  device->when(event, [&](Fate fate) { told += fate == Fate::lost ? 1 : 100; });
  device->give_up();
  device.reset();
  CHECK(told == 1);
  // Whoever reads what has been freed finds a mutex that is none.
  std::vector<std::vector<std::byte>> others;
  for (size_t bytes = 16; bytes <= 2048; bytes += 16)
    for (int k = 0; k < 16; ++k)
      others.emplace_back(bytes, std::byte{0xff});
  CHECK_NOTHROW(cuda.let_go());
}

TEST_CASE("memory is asked for as what can be shared only where it will be") {
  FakeCuda& cuda = anew();
  const auto device = open_device();
  Block ours, shared;
  REQUIRE(device->allocate(100, Block::Kind::device, ours) == Fate::ok);
  REQUIRE(device->allocate(100, Block::Kind::shared, shared) == Fate::ok);
  REQUIRE(cuda.asked_for.size() == 2);
  CHECK(cuda.asked_for[0].requestedHandleTypes == 0);
  CHECK(cuda.asked_for[1].requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  int descriptor = -1;
  REQUIRE(device->share(shared, descriptor) == Fate::ok);
  CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  close(descriptor);
  CHECK(device->free(ours) == Fate::ok);
  CHECK(device->free(shared) == Fate::ok);
}

TEST_CASE("where memory may not be shared, that kind is refused and the device goes on") {
  for (const CUresult refusal : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_PERMITTED}) {
    FakeCuda& cuda = anew();
    cuda.sharing = refusal;
    cuda.shares = false;
    const auto device = open_device();
    Block block;
    CHECK(device->allocate(100, Block::Kind::shared, block) == Fate::out_of_memory);
    CHECK(device->allocate(100, Block::Kind::device, block) == Fate::ok);
    CHECK(device->free(block) == Fate::ok);
  }
}

TEST_CASE(
    "memory of the host is pinned where that can be done, and nothing is lost where it cannot") {
  FakeCuda& cuda = anew();
  const auto device = open_device();
  int here = 0;
  for (const auto mode : {Access::Mode::updates, Access::Mode::reads}) {
    CHECK(device->pin({&here, sizeof here, mode}) == Fate::ok);
    REQUIRE(cuda.registered.size() == 1);
    const unsigned flags = cuda.registered[&here];
    CHECK((flags & cudaHostRegisterPortable) != 0);
    CHECK(((flags & cudaHostRegisterReadOnly) != 0) == (mode == Access::Mode::reads));
    device->unpin(&here);
    CHECK(cuda.registered.empty());
  }
  cuda.registers = false;
  CHECK(device->pin({&here, sizeof here, Access::Mode::updates}) == Fate::out_of_memory);
  CHECK(device->drain() == Fate::ok);
  Stream stream;
  REQUIRE(device->make_stream(false, stream) == Fate::ok);
  CHECK(device->launch(stream, {}, [](void*, void* const*) {}) == Fate::ok);
}

TEST_CASE("a pass is not blamed for what others have asked before it") {
  FakeCuda& cuda = anew();
  const auto device = open_device();
  Stream stream;
  REQUIRE(device->make_stream(false, stream) == Fate::ok);
  cuda.last_error = cudaErrorNotReady;
  CHECK(device->launch(stream, {}, [](void*, void* const*) {}) == Fate::ok);
  cuda.missing = {"cuMemGetAllocationGranularity"};
  CHECK(open_cuda_device(0).error().message.find("has no virtual memory calls") !=
        std::string::npos);
  CHECK(cuda.last_error == cudaSuccess);
}

TEST_CASE("of several GPUs the emptiest is the one with the most free memory") {
  FakeCuda& cuda = anew();
  CHECK(emptiest_cuda_device() == 0);
  cuda.gpus = 3;
  CHECK(emptiest_cuda_device() == 1);
}

TEST_CASE("CUDA is asked for more queues of the hardware, unless the user has asked for others") {
  constexpr char kName[] = "CUDA_DEVICE_MAX_CONNECTIONS";
  anew();
  unsetenv(kName);
  open_device();
  CHECK(getenv(kName) == std::string("32"));
  setenv(kName, "8", 1);
  open_device();
  CHECK(getenv(kName) == std::string("8"));
}

TEST_CASE("a device that is lost answers so at once, tells once, and asks CUDA no more") {
  FakeCuda& cuda = anew();
  auto device = open_device();
  Stream stream;
  Event event;
  REQUIRE(device->make_stream(false, stream) == Fate::ok);
  REQUIRE(device->make_event(event) == Fate::ok);
  int losses = 0;
  device->on_lost([&] { ++losses; });
  cuda.fails = cudaErrorIllegalAddress;
  CHECK(device->record(event, stream) == Fate::lost);
  cuda.fails = cudaSuccess;
  CHECK(device->query(event) == Fate::lost);
  CHECK(device->drain() == Fate::lost);
  std::atomic<int> told{0};
  device->when(event, [&](Fate fate) { told += fate == Fate::lost ? 1 : 100; });
  CHECK(eventually([&] { return told == 1; }));
  device.reset();
  CHECK(losses == 1);
  CHECK(told == 1);
}
