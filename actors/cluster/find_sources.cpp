#include "actors/cluster/find_sources.hpp"

#include <algorithm>

#include "actors/membership/member_table.hpp"

namespace grapevine {

namespace {

constexpr size_t kDials = 3;

template <class Things>
void begin_elsewhere(Things& things, const std::string& self) {
  if (things.empty()) return;
  const auto turn = static_cast<ptrdiff_t>(name_hash(self) % things.size());
  std::rotate(things.begin(), things.begin() + turn, things.end());
}

}  // namespace

FoundSources find_sources(const std::vector<Member>& graph, const std::string& self,
                          const std::function<bool(const std::string& node)>& linked) {
  FoundSources found;
  for (const Member& m : graph) {
    if (m.node == self) continue;
    found.dials.push_back(m.node);
    if (linked(m.node)) found.sources.push_back({m.node, m.first_rank});
  }
  if (!found.sources.empty()) found.dials.clear();
  begin_elsewhere(found.sources, self);
  begin_elsewhere(found.dials, self);
  found.dials.resize(std::min(kDials, found.dials.size()));
  return found;
}

}  // namespace grapevine
