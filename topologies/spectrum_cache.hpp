// SpectrumCache: recent spectra, shared by all users of one graph and its rates. A thousand
// simulated nodes in one process ask for one spectrum a thousand times.
//
// Any thread may call it. Two threads that ask at once may both compute the spectrum. It keeps at
// most kSpectraKept spectra, with kEdgesKept edges in all; it drops the least recently used first.
#pragma once
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "kernels/base/mutex.hpp"
#include "topologies/spectrum.hpp"

namespace grapevine {

constexpr size_t kSpectraKept = 64, kEdgesKept = 256 * 1024;

class SpectrumCache {
 public:
  /// Like spectrum_chi(); `rates` has one entry per edge.
  std::shared_ptr<const Result<Spectrum>> of(const Topology&, std::span<const double> rates);

  uint64_t solved() const;  // spectra computed so far

 private:
  struct Entry {
    int ranks = 0;
    std::vector<std::pair<int, int>> ends;  // of the edges
    std::vector<double> rates;
    std::shared_ptr<const Result<Spectrum>> spectrum;
  };
  std::shared_ptr<const Result<Spectrum>> find(const Topology&, std::span<const double> rates);

  mutable Mutex mutex_;
  std::list<Entry> entries_ GV_GUARDED_BY(mutex_);  // most recently used first
  size_t edges_ GV_GUARDED_BY(mutex_) = 0;          // of all entries
  uint64_t solved_ GV_GUARDED_BY(mutex_) = 0;
};

}  // namespace grapevine
