// device_buffer.hpp in a build without CUDA: there is no device, and asking for one anyway is a
// bug.
#include "kernels/device_buffer.hpp"

namespace grapevine {
namespace {

[[noreturn]] void no_cuda(const char* asked) {
  check_detail::fail(__FILE__, __LINE__, asked, "this build has no CUDA");
}

}  // namespace

int device_count() { return 0; }
std::string device_name() { return {}; }

DeviceStream::DeviceStream() { no_cuda("a DeviceStream was made"); }
DeviceStream::~DeviceStream() = default;
void DeviceStream::sync() const { no_cuda("a stream was waited for"); }
double DeviceStream::timed_s(const std::function<void()>&) const { no_cuda("work was timed"); }

DeviceBuffer::DeviceBuffer(size_t, DType) { no_cuda("a DeviceBuffer was made"); }
DeviceBuffer::~DeviceBuffer() = default;
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept = default;

void upload(const DeviceStream&, ConstVec, Vec) { no_cuda("memory was copied to a device"); }
void download(const DeviceStream&, ConstVec, Vec) { no_cuda("memory was copied from a device"); }

}  // namespace grapevine
