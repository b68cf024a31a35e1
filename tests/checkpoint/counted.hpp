// Counted: quadratics whose gradients have samples, which are counted as the data deals them out.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/settings/settings.hpp"
#include "models/walk.hpp"

namespace grapevine::test {

class Counted : public Objective {
 public:
  static constexpr uint32_t kSamples = 120;
  static constexpr int kBatch = 2;

  /// The samples of a rank's gradients first..to, in their order.
  virtual std::vector<uint32_t> walked(int rank, uint64_t first, uint64_t to) const = 0;
  virtual const Partition& partition() const = 0;
};

/// Dealt out among the ranks of the settings.
std::shared_ptr<Counted> make_counted(const Settings&, const std::string& partition);

}  // namespace grapevine::test
