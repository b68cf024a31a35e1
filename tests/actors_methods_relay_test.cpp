// Methods that relay along the edges of trees (Vogels et al., NeurIPS 2021, arXiv 2110.04175).
#include "tests/catch.hpp"
#include "tests/lockstep.hpp"

namespace grapevine::test {

TEST_CASE("lockstep: D-PSGD on a ring of 16 is where the published figures have it") {
  LockstepOptions options;
  options.method = "d_psgd";
  options.ranks = 16;
  options.gradient = [](int i, uint64_t, const LockstepOptions::Row& x) {
    return LockstepOptions::Row((x.array() - (7 * i % 16 - 7.5)) * (0.25 + 0.75 * i / 15));
  };
  Lockstep run(options);
  run.rounds(200, 0.1);
  CHECK(run.mean()(0) - 0.18 == Approx(-1.543308301248e-2).margin(1e-10));
}

}  // namespace grapevine::test
