// The CUDA twins of the low-rank passes against the CPU. Without a GPU they say so and pass.
#include <cmath>

#include "kernels/device_buffer.hpp"
#include "kernels/low_rank.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/tools.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

/// A random vector on the host and its copy on the GPU.
struct Twin {
  Buffer host;
  DeviceBuffer device;

  Twin(const DeviceStream& stream, size_t size, DType dtype, uint64_t which)
      : host(random_buffer(size, dtype, which)), device(size, dtype) {
    upload(stream, host, device);
    stream.sync();
  }

  /// How far the GPU's numbers are from the host's.
  double distance(const DeviceStream& stream) {
    Buffer back(host.size(), host.dtype());
    download(stream, device, back);
    stream.sync();
    double worst = 0;
    for (size_t i = 0; i < back.size(); ++i) {
      worst = std::max(worst, std::abs(element(back, i) - element(host, i)));
    }
    return worst;
  }
};

}  // namespace

TEST_CASE("the CUDA products equal the CPU's to rounding, its jump and Gram-Schmidt to the bit") {
  if (device_count() == 0) {
    return test::skipped("no CUDA device");
  }
  const DeviceStream stream;
  const Execution gpu = stream.execution();
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const LowRank s : {LowRank{1, 1, 1}, LowRank{7, 3, 2}, LowRank{64, 27, 3},
                            LowRank{300, 513, 4}, LowRank{1003, 140, 6}}) {
      INFO(s.rows << " x " << s.columns << " rank " << s.rank << " fp" << 8 * size_of(dtype));
      Twin x(stream, s.rows * s.columns, dtype, 1), x_tilde(stream, x.host.size(), dtype, 2),
          p(stream, s.rows * s.rank, dtype, 3), q(stream, s.columns * s.rank, dtype, 4);
      mix_and_add_low_rank({}, s, 0.3, -0.5, 0.7, p.host, q.host, x.host, x_tilde.host);
      mix_and_add_low_rank(gpu, s, 0.3, -0.5, 0.7, p.device, q.device, x.device, x_tilde.device);
      add_low_rank({}, s, 0.2, p.host, q.host, x.host);
      add_low_rank(gpu, s, 0.2, p.device, q.device, x.device);
      CHECK(x.distance(stream) == 0);
      CHECK(x_tilde.distance(stream) == 0);
      orthonormalise({}, s.columns, s.rank, q.host);
      orthonormalise(gpu, s.columns, s.rank, q.device);
      CHECK(q.distance(stream) == 0);
      const double bound = 100 * rounding(dtype) * static_cast<double>(s.rows + s.columns);
      times({}, s, x.host, q.host, p.host);
      times(gpu, s, x.device, q.device, p.device);
      CHECK(p.distance(stream) < bound);
      upload(stream, p.host, p.device);
      transposed_times({}, s, x.host, p.host, q.host);
      transposed_times(gpu, s, x.device, p.device, q.device);
      CHECK(q.distance(stream) < bound * 100);
    }
  }
}
