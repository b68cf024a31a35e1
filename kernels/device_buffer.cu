#include <utility>

#include "kernels/cuda_check.cuh"
#include "kernels/device_buffer.hpp"

namespace grapevine {
namespace {

cudaStream_t queue(void* stream) { return static_cast<cudaStream_t>(stream); }

void check_same(const ConstVec& a, const ConstVec& b) {
  GV_CHECK(a.size == b.size);
  GV_CHECK(static_cast<int>(a.dtype) == static_cast<int>(b.dtype));
}

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // no driver, no GPU: not an error to carry along
    return 0;
  }
  return count;
}

std::string device_name() {
  if (device_count() == 0) return {};
  int device = 0;
  cudaDeviceProp properties;
  GV_CUDA(cudaGetDevice(&device));
  GV_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

DeviceStream::DeviceStream() {
  cudaStream_t stream = nullptr;
  GV_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_ = stream;
}

DeviceStream::~DeviceStream() { cudaStreamDestroy(queue(stream_)); }

void DeviceStream::sync() const { GV_CUDA(cudaStreamSynchronize(queue(stream_))); }

double DeviceStream::timed_s(const std::function<void()>& work) const {
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  GV_CUDA(cudaEventCreate(&start));
  GV_CUDA(cudaEventCreate(&stop));
  GV_CUDA(cudaEventRecord(start, queue(stream_)));
  work();
  GV_CUDA(cudaEventRecord(stop, queue(stream_)));
  GV_CUDA(cudaEventSynchronize(stop));
  float elapsed_ms = 0;
  GV_CUDA(cudaEventElapsedTime(&elapsed_ms, start, stop));
  GV_CUDA(cudaEventDestroy(start));
  GV_CUDA(cudaEventDestroy(stop));
  return elapsed_ms * 1e-3;
}

DeviceBuffer::DeviceBuffer(size_t size, DType dtype) : size_(size), dtype_(dtype) {
  const size_t bytes = size * size_of(dtype);
  GV_CUDA(cudaMalloc(&data_, bytes + 1));  // a view of no elements is not null either
  GV_CUDA(cudaMemset(data_, 0, bytes + 1));
  GV_CUDA(cudaDeviceSynchronize());  // the zeros are there for every stream
}

DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      dtype_(other.dtype_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  DeviceBuffer taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  std::swap(dtype_, taken.dtype_);
  return *this;
}

void upload(const DeviceStream& stream, ConstVec host, Vec device) {
  check_same(host, device);
  GV_CUDA(cudaMemcpyAsync(device.data, host.data, host.bytes(), cudaMemcpyHostToDevice,
                          queue(stream.handle())));
}

void download(const DeviceStream& stream, ConstVec device, Vec host) {
  check_same(host, device);
  GV_CUDA(cudaMemcpyAsync(host.data, device.data, host.bytes(), cudaMemcpyDeviceToHost,
                          queue(stream.handle())));
}

}  // namespace grapevine
