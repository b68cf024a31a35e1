#include "app/report.hpp"

#include <cstdio>

#include "app/words.hpp"

namespace grapevine {

void print_simulation(const Settings& settings, const std::vector<Summary>& runs) {
  const Summary& s = runs.front();
  std::printf("%s exchanges %s\n", settings.method.c_str(),
              with_commas(static_cast<double>(s.exchanges)).c_str());
}

}  // namespace grapevine
