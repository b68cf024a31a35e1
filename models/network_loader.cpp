#include "models/network_loader.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "models/data/file.hpp"
#include "models/network/module.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> module_candidates() {
  std::vector<fs::path> candidates;
  if (const char* folder = std::getenv("GRAPEVINE_MODULE_PATH"))  // programs outside the prefix
    candidates.push_back(fs::path(folder) / kNetworkModuleFile);
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  if (!unknown) {
    const fs::path folder = program.parent_path();
    candidates.push_back(folder / kNetworkModuleFile);
    candidates.push_back((folder / "../lib/grapevine").lexically_normal() / kNetworkModuleFile);
  }
  candidates.emplace_back(fs::path(GRAPEVINE_NETWORK_MODULE_FOLDER) / kNetworkModuleFile);
  return candidates;
}

// Never closed: LibTorch does not survive it.
Result<MakeNetwork*> open_module() {
  std::string looked_at;
  for (const fs::path& path : module_candidates()) {
    std::error_code unreadable;
    if (!fs::exists(path, unreadable)) {
      looked_at += (looked_at.empty() ? "" : ", ") + path.parent_path().string();
      continue;
    }
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* symbol = module ? dlsym(module, kNetworkModuleSymbol) : nullptr;
    if (symbol == nullptr) {
      const char* why = dlerror();
      return world_error("cannot load the network module " + path.string() + ": " +
                         (why ? why : "no reason given"));
    }
    return reinterpret_cast<MakeNetwork*>(symbol);
  }
  return world_error(std::string("networks need ") + kNetworkModuleFile +
                     " (built where LibTorch is found), which is in none of: " + looked_at);
}

}  // namespace

Result<std::unique_ptr<Objective>> make_network(const ObjectiveSpec& spec) {
  if (spec.batch < 1) {
    return user_error("batch is " + std::to_string(spec.batch) + ", accepted: 1 or more");
  }
  // Names first: reading the data takes half a second.
  const SampleShape any_image{1, 28, 28, true};
  if (const auto known = plan_network(spec.model, any_image, 10, true); !known) {
    return known.error();
  }
  Result<DataSet> data = read_data_set(spec.dataset, spec.data_dir);
  if (!data) return data.error();
  Result<NetworkPlan> plan = plan_network(spec.model, data->train.shape, data->classes,
                                          spec.decay_norms_and_biases);
  if (!plan) return plan.error();
  const size_t samples = data->train.count();
  GV_CHECK(samples <= size_t{std::numeric_limits<uint32_t>::max()});
  if (samples < static_cast<size_t>(spec.ranks)) {
    return user_error("ranks is " + std::to_string(spec.ranks) + ", accepted: at most " +
                      with_commas(samples) + ", the training samples of " + spec.dataset);
  }
  const Result<MakeNetwork*> make = open_module();
  if (!make) return make.error();
  std::unique_ptr<Objective> made;
  (**make)(spec, *plan, std::make_shared<const DataSet>(std::move(*data)), made);
  return made;
}

}  // namespace grapevine
