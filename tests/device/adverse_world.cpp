#include "tests/device/adverse_world.hpp"

#include <algorithm>
#include <cmath>

namespace grapevine::testing {

void AdverseWorld::at(double time_s, std::function<void()> what) {
  timers_.push({time_s, ++number_, std::move(what)});
}

bool AdverseWorld::step() {
  if (timers_.empty()) return false;
  const Timer next = timers_.top();
  timers_.pop();
  now_ = std::max(now_, next.at);
  next.what();
  return true;
}

void AdverseWorld::run_until(double time_s) {
  while (!timers_.empty() && timers_.top().at <= time_s)
    step();
  now_ = std::max(now_, time_s);
}

bool AdverseWorld::run(uint64_t most) {
  for (uint64_t steps = 0; steps < most; ++steps)
    if (!step()) return true;
  return false;
}

double AdverseWorld::chance(double least, double most) {
  return least * std::pow(most / least, random_.uniform());
}

bool AdverseWorld::leaves_out(const char* kind, const Where& where) {
  const Site site{kind, testing::at(where)};
  ++sites[site];
  return left_out == site;
}

}  // namespace grapevine::testing
