// grapevine reproduce: published figures next to the results of the actors, with a verdict.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "app/commands/commands.hpp"
#include "app/output/json_output.hpp"
#include "app/reproduce/reproduce.hpp"
#include "app/system/words.hpp"

namespace grapevine {
namespace {

constexpr const char* kEverything = "all";

Result<std::vector<const Reproduction*>> chosen(const std::string& name) {
  std::vector<const Reproduction*> found;
  std::string accepted;
  for (const Reproduction& r : reproductions()) {
    if (name == r.name || (name == kEverything && r.in_all)) found.push_back(&r);
    accepted += r.name + std::string(", ");
  }
  if (!found.empty()) return found;
  return user_error(fmt::format("name is \"{}\", accepted: {}{}", name, accepted, kEverything));
}

int list(bool as_json) {
  Json names = Json::array();
  for (const Reproduction& r : reproductions()) {
    names.push_back({{"name", r.name}, {"sentence", r.sentence}, {"in_all", r.in_all}});
    if (!as_json) std::printf("  %-24s %s\n", r.name, r.sentence);
  }
  if (as_json) {
    print_json({{"reproductions", names}});
  } else {
    std::printf("  %-24s the ones that need no data set\n", kEverything);
  }
  return 0;
}

// More digits if the tolerance is small.
std::string number(const Claim& claim, double value) {
  const bool fine = claim.accept <= Accept::relative && claim.tolerance < 1e-3;
  return fmt::format("{:.{}g}", value, fine ? 12 : 5);
}

std::string tolerance_text(const Claim& claim) {
  switch (claim.accept) {
    case Accept::absolute:
      return claim.tolerance > 0 ? "+- " + as_short(claim.tolerance) : std::string("exact");
    case Accept::relative: return as_short(100 * claim.tolerance) + " %";
    case Accept::factor: return "factor " + as_short(claim.tolerance);
    case Accept::at_most: return "at most";
    case Accept::at_least: return "at least";
  }
  return "";
}

void print(const Reproduction& r, const Claims& claims, double seconds) {
  size_t width = 4;
  for (const Claim& claim : claims)
    width = std::max(width, claim.what.size());
  const auto columns = static_cast<int>(width);
  std::printf("%s: %s\n\n", r.name, r.sentence);
  std::printf("  %-*s  %18s  %18s  %10s\n", columns, "what", "expected", "measured", "within");
  for (const Claim& claim : claims)
    std::printf("  %-*s  %18s  %18s  %10s  %s\n", columns, claim.what.c_str(),
                number(claim, claim.expected).c_str(), number(claim, claim.measured).c_str(),
                tolerance_text(claim).c_str(), claim.ok() ? "ok" : "NOT MET");
  const auto hold =
      std::count_if(claims.begin(), claims.end(), [](const Claim& c) { return c.ok(); });
  std::printf("\n  %zu of %zu claims hold, %s\n\n", static_cast<size_t>(hold), claims.size(),
              as_seconds(seconds).c_str());
  std::fflush(stdout);
}

void add(const Reproduction& r, const Claims& claims, bool prefixed, Json& out) {
  for (const Claim& claim : claims) {
    const std::string before = prefixed ? r.name + std::string(": ") : std::string();
    out.push_back({{"what", before + claim.what},
                   {"expected", claim.expected},
                   {"measured", claim.measured},
                   {"tolerance", claim.tolerance},
                   {"within", tolerance_text(claim)},
                   {"ok", claim.ok()}});
  }
}

// On a terminal a line that is rewritten.
std::function<void(size_t, size_t)> progress_of(const char* name, bool quiet) {
  if (quiet || isatty(STDERR_FILENO) == 0) return {};
  return [name](size_t done, size_t of) {
    std::fprintf(stderr, "\r%s: %zu of %zu runs ", name, done, of);
    if (done == of) std::fprintf(stderr, "\r\033[K");
  };
}

}  // namespace

Result<int> reproduce(Options options) {
  if (options.list) return list(options.json);
  const auto wanted = chosen(options.name);
  if (!wanted) return wanted.error();
  Effort effort;
  effort.seed = options.settings.seed;
  effort.seeds = options.seeds;
  effort.steps = options.steps;
  effort.threads = options.settings.threads;
  effort.data_dir = options.settings.objective.data_dir;
  Json all = Json::array();
  bool ok = true;
  for (const Reproduction* r : *wanted) {
    const auto begin = std::chrono::steady_clock::now();
    effort.progress = progress_of(r->name, options.log.quiet);
    const auto claims = r->run(effort);
    if (!claims) return claims.error();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    for (const Claim& claim : *claims)
      ok = ok && claim.ok();
    if (!options.json) print(*r, *claims, took.count());
    add(*r, *claims, options.name == kEverything, all);
  }
  if (options.json) print_json({{"name", options.name}, {"claims", all}});
  return ok ? 0 : 1;
}

}  // namespace grapevine
