// DeviceBuffer and DeviceStream: GPU memory and a queue of GPU work, for callers that never see a
// CUDA header.
//
// Exist in every build. Without CUDA, or without a GPU, device_count() is 0 and making either is a
// broken precondition (GV_CHECK), as is every CUDA call that fails: an out-of-memory or a lost GPU
// ends the process with the runtime's own words. Work on a stream runs in order; sync() waits for
// it.
#pragma once
#include <functional>
#include <string>

#include "kernels/ops.hpp"

namespace grapevine {

int device_count();
std::string device_name();  // of the current one; empty without one

class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  Execution execution() const { return {Execution::Device::cuda, nullptr, stream_}; }
  void* handle() const { return stream_; }  // a cudaStream_t
  void sync() const;
  double timed_s(const std::function<void()>& work) const;  // by the GPU's clock; waits

 private:
  void* stream_ = nullptr;
};

/// `size` zeroed elements on the current GPU, aligned to 256 bytes. Moves, never copies.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(size_t size, DType dtype);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  Vec vec() { return {data_, size_, dtype_}; }
  ConstVec vec() const { return {data_, size_, dtype_}; }
  operator Vec() { return vec(); }
  operator ConstVec() const { return vec(); }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
  DType dtype_ = DType::f32;
};

/// Queue copies between host and GPU memory; the views agree in size and dtype. The host memory
/// must stay until sync().
void upload(const DeviceStream&, ConstVec host, Vec device);
void download(const DeviceStream&, ConstVec device, Vec host);

}  // namespace grapevine
