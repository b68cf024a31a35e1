#include "models/network_loader.hpp"

#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <span>

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

/// The partition asked for, "auto" being what suits the data.
Result<std::shared_ptr<const Partition>> deal_out(const ObjectiveSpec& spec, size_t samples,
                                                  std::span<const uint8_t> labels) {
  GV_CHECK(samples <= size_t{std::numeric_limits<uint32_t>::max()});
  if (static_cast<size_t>(spec.batch) > samples)
    return user_error("batch is " + std::to_string(spec.batch) + ", accepted: 1 to " +
                      std::to_string(samples) + ", the samples that there are");
  const std::string suits = is_text(spec.dataset) ? "contiguous" : "iid";
  Result<Partition> made =
      make_partition(spec.partition == "auto" ? suits : spec.partition,
                     static_cast<uint32_t>(samples), labels, spec.ranks, spec.seed);
  if (!made) return made.error();
  return std::make_shared<const Partition>(std::move(*made));
}

Result<NetworkInputs> classifier_inputs(const ObjectiveSpec& spec) {
  // Names first: reading the data takes half a second.
  const SampleShape any_image{1, 28, 28, true};
  if (const auto known = plan_network(spec.model, any_image, 10, true); !known) {
    return known.error();
  }
  Result<DataSet> data = read_data_set(spec.dataset, spec.data_dir);
  if (!data) return data.error();
  Result<NetworkPlan> plan =
      plan_network(spec.model, data->train.shape, data->classes, spec.decay_norms_and_biases);
  if (!plan) return plan.error();
  auto partition = deal_out(spec, data->train.count(), data->train.labels);
  if (!partition) return partition.error();
  return NetworkInputs{std::move(*plan), std::make_shared<const DataSet>(std::move(*data)), nullptr,
                       std::move(*partition)};
}

Result<NetworkInputs> language_inputs(const ObjectiveSpec& spec) {
  if (spec.window < 1) {
    return user_error("window is " + std::to_string(spec.window) + ", accepted: 1 or more");
  }
  const TokenUnit unit = spec.model == kWordModel ? TokenUnit::word : TokenUnit::character;
  const size_t window = static_cast<size_t>(spec.window);
  Result<TextSet> text = read_text_set(spec.dataset, spec.data_dir, unit, window + 1);
  if (!text) return text.error();
  NetworkPlan plan = plan_language_model(spec.model, static_cast<int>(text->vocabulary.size()),
                                         spec.window, spec.decay_norms_and_biases);
  auto partition = deal_out(spec, (text->train.size() - 1) / window, {});
  if (!partition) return partition.error();
  return NetworkInputs{std::move(plan), nullptr, std::make_shared<const TextSet>(std::move(*text)),
                       std::move(*partition)};
}

}  // namespace

Result<std::unique_ptr<Objective>> make_network(const ObjectiveSpec& spec) {
  if (spec.batch < 1) {
    return user_error("batch is " + std::to_string(spec.batch) + ", accepted: 1 or more");
  }
  if (!(spec.clip >= 0 && std::isfinite(spec.clip))) {
    return user_error("clip is " + in_digits(spec.clip) + ", accepted: 0 or more");
  }
  const bool reads_text = spec.model == kCharacterModel || spec.model == kWordModel;
  if (reads_text && !is_text(spec.dataset)) {
    return user_error("model " + spec.model + " reads text, the data set is \"" + spec.dataset +
                      "\", accepted: text:FILE, tiny-shakespeare, wikitext-2");
  }
  if (!reads_text && is_text(spec.dataset)) {
    return user_error("model is \"" + spec.model + "\" and data set " + spec.dataset +
                      " is text, accepted: lm-char, lm-word");
  }
  Result<NetworkInputs> inputs = reads_text ? language_inputs(spec) : classifier_inputs(spec);
  if (!inputs) return inputs.error();
  const Result<MakeNetwork*> make = open_module();
  if (!make) return make.error();
  std::unique_ptr<Objective> made;
  (**make)(spec, std::move(*inputs), made);
  return made;
}

}  // namespace grapevine
