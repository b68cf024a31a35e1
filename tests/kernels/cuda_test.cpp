// Every CUDA twin against the CPU. Without a GPU these sentences say so and pass.
#include <cmath>

#include "kernels/device_buffer.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/passes.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

bool has_no_device() {
  if (device_count() > 0) return false;
  test::skipped("no CUDA device");
  return true;
}

/// The streams on the GPU, each shifted as on the host and `extra` elements more for odd ones.
class DeviceStreams {
 public:
  DeviceStreams(const DeviceStream& stream, Streams& host, size_t shift, size_t extra)
      : stream_(stream) {
    for (int k = 0; k < Streams::kCount; ++k) {
      const Vec from = host.view(k);
      const size_t offset = shift + (k % 2 == 1 ? extra : 0);
      memory_.emplace_back(from.size + offset, from.dtype);
      views_.push_back(memory_.back().vec().part(offset, from.size));
      upload(stream, from, views_.back());
    }
    stream.sync();
  }

  const std::vector<Vec>& views() const { return views_; }

  void read_back(Streams& host) const {
    for (int k = 0; k < Streams::kCount; ++k) {
      download(stream_, views_[static_cast<size_t>(k)], host.view(k));
    }
    stream_.sync();
  }

 private:
  const DeviceStream& stream_;
  std::vector<DeviceBuffer> memory_;
  std::vector<Vec> views_;
};

}  // namespace

TEST_CASE("every CUDA pass gives the bits of the CPU, for odd sizes and misaligned views") {
  if (has_no_device()) return;
  const DeviceStream stream;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t size : {0, 1, 3, 17, 1003, 1000003}) {
      for (const size_t shift : {0, 1, 3}) {
        for (const size_t extra : {0, 1}) {
          for (const Case& c : all_cases()) {
            if (size > 2000 && (!c.with_v || shift == 3)) continue;
            Streams cpu(size, dtype, 0), gpu(size, dtype, 0);
            run(c, {}, cpu);
            const DeviceStreams device(stream, gpu, shift, extra);
            run_on(c, stream.execution(), device.views());
            device.read_back(gpu);
            INFO(c.name() << " fp" << 8 * size_of(dtype) << " size " << size << " shift " << shift
                          << " extra " << extra);
            CHECK(cpu.same_bits(gpu));
          }
        }
      }
    }
  }
}

TEST_CASE("the CUDA dot product and distance have the CPU's bits, and finiteness is the same") {
  if (has_no_device()) return;
  const DeviceStream stream;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t size : {0, 1, 15, 17, 8191, 8192, 8209, 1000003, 3000017}) {
      Streams host(size, dtype, 0);
      const DeviceStreams device(stream, host, 1, 0);
      const double ours = dot({}, host.view(0), host.view(1));
      const double theirs = dot(stream.execution(), device.views()[0], device.views()[1]);
      CHECK(ours == theirs);
      CHECK(square_distance({}, host.view(0), host.view(1)) ==
            square_distance(stream.execution(), device.views()[0], device.views()[1]));
      CHECK(all_finite(stream.execution(), device.views()[0]));
      for (const double bad : {std::nan(""), HUGE_VAL}) {
        CHECK(mix_and_take(stream.execution(), 0.1, device.views()[0], device.views()[1],
                           device.views()[3], device.views()[4]));
        if (size == 0) continue;
        Buffer one(1, dtype);
        if (dtype == DType::f32) {
          one.vec().as<float>()[0] = static_cast<float>(bad);
        } else {
          one.vec().as<double>()[0] = bad;
        }
        upload(stream, one, device.views()[0].part(size - 1, 1));
        CHECK_FALSE(all_finite(stream.execution(), device.views()[0]));
        CHECK_FALSE(mix_and_take(stream.execution(), 0.1, device.views()[0], device.views()[1],
                                 device.views()[3], device.views()[4]));
      }
    }
  }
}

TEST_CASE("asking for a GPU that is not there ends the process and does not compute elsewhere") {
  if (device_count() > 0) {
    return test::skipped("a CUDA device is here");
  }
  Buffer x(10, DType::f32), y(10, DType::f32);
  Execution on;
  on.device = Execution::Device::cuda;
  CHECK(last_words([&] { axpy(on, 1, x, y); }) != "");
  CHECK(last_words([] { const DeviceStream stream; }) != "");
  CHECK(device_name().empty());
}

TEST_CASE("device memory starts zeroed, moves, and brings back what was sent") {
  if (has_no_device()) return;
  const DeviceStream stream;
  DeviceBuffer a(1003, DType::f64);
  Buffer host = random_buffer(1003, DType::f64, 1);
  const auto sent = numbers(host.vec());
  DeviceBuffer b = std::move(a);
  download(stream, b, host);
  stream.sync();
  CHECK(numbers(host.vec()) == std::vector<double>(1003));
  host = random_buffer(1003, DType::f64, 1);
  upload(stream, host, b);
  stream.sync();
  scale({}, 0, host, host);
  CHECK(numbers(host.vec()) == std::vector<double>(1003));
  download(stream, b, host);
  stream.sync();
  CHECK(numbers(host.vec()) == sent);
  CHECK_FALSE(device_name().empty());
}
