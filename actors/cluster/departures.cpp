#include "actors/cluster/departures.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {

constexpr size_t kKept = 100;

}  // namespace

uint64_t Departures::open(const Member& gone, int of, double now, size_t states) {
  GV_CHECK(states > 0u);
  Open& open = open_[++opened_];
  open.departure = {gone.node, gone.state == MemberState::left, static_cast<int>(gone.ranks), of,
                    now};
  open.gone = gone;
  open.awaited = states;
  return opened_;
}

std::optional<Departure> Departures::told(uint64_t number, const StateReport& report) {
  const auto found = open_.find(number);
  if (found == open_.end()) return std::nullopt;
  Open& open = found->second;
  for (const EdgeDistance& e : report.distances) {
    const uint32_t place = static_cast<uint32_t>(e.peer) - open.gone.first_rank;
    if (place >= open.gone.ranks || std::isnan(e.distance)) continue;
    open.squares += e.distance * e.distance;
    ++open.edges;
  }
  if (--open.awaited > 0) return std::nullopt;
  Departure d = open.departure;
  if (open.edges > 0) d.mean_changed_by = std::sqrt(open.squares / open.edges) * d.ranks / d.of;
  open_.erase(found);
  return d;
}

std::string Departures::record(Departure d) {
  const std::string jump = std::isnan(d.mean_changed_by)
                               ? ""
                               : fmt::format(", the mean moves by {:.3g}", d.mean_changed_by);
  std::string line = fmt::format("{} of {} ranks have left with {}{}", d.ranks, d.of, d.node, jump);
  if (kept_.size() >= kKept) kept_.erase(kept_.begin());
  kept_.push_back(std::move(d));
  return line;
}

}  // namespace grapevine
