#include "topologies/spectrum_cache.hpp"

#include <algorithm>

#include "topologies/spectrum_chi.hpp"

namespace grapevine {

std::shared_ptr<const Result<Spectrum>> SpectrumCache::find(const Topology& graph,
                                                            std::span<const double> rates) {
  const auto same_ends = [](const Edge& e, const std::pair<int, int>& known) {
    return std::pair(e.i, e.j) == known;
  };
  const auto same = [&](const Entry& entry) {
    return entry.ranks == graph.ranks() && std::ranges::equal(rates, entry.rates) &&
           std::ranges::equal(graph.edges(), entry.ends, same_ends);
  };
  const Lock lock(mutex_);
  const auto found = std::ranges::find_if(entries_, same);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->spectrum;
}

std::shared_ptr<const Result<Spectrum>> SpectrumCache::of(const Topology& graph,
                                                          std::span<const double> rates) {
  if (auto known = find(graph, rates)) return known;
  Entry entry{graph.ranks(), {}, {rates.begin(), rates.end()}, {}};
  for (const Edge& e : graph.edges())
    entry.ends.emplace_back(e.i, e.j);
  entry.spectrum = std::make_shared<const Result<Spectrum>>(spectrum_chi(graph, rates));
  auto answer = entry.spectrum;
  const Lock lock(mutex_);
  ++solved_;
  edges_ += rates.size();
  entries_.push_front(std::move(entry));
  while (entries_.size() > kSpectraKept || edges_ > kEdgesKept) {
    edges_ -= entries_.back().rates.size();
    entries_.pop_back();
  }
  return answer;
}

uint64_t SpectrumCache::solved() const {
  const Lock lock(mutex_);
  return solved_;
}

}  // namespace grapevine
