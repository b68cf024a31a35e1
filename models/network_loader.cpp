#include "models/network_loader.hpp"

#include <fmt/core.h>

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include "kernels/base/checksum.hpp"
#include "kernels/base/spec.hpp"
#include "models/files/file.hpp"
#include "models/module.hpp"
#include "models/torch_libraries.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

/// Empty: /proc does not say.
fs::path program_folder() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

std::vector<fs::path> module_candidates() {
  std::vector<fs::path> candidates;
  if (const char* folder = std::getenv("GRAPEVINE_MODULE_PATH"))  // for programs outside the prefix
    candidates.push_back(fs::path(folder) / kNetworkModuleFile);
  if (const fs::path folder = program_folder(); !folder.empty()) {
    candidates.push_back(folder / kNetworkModuleFile);
    candidates.push_back(folder / "bin" / kNetworkModuleFile);  // the build puts it here
    candidates.push_back((folder / "../lib/grapevine").lexically_normal() / kNetworkModuleFile);
  }
  Dl_info here{};  // our shared library, or again the program
  if (dladdr(reinterpret_cast<const void*>(&module_candidates), &here) != 0 && here.dli_fname)
    candidates.push_back(fs::path(here.dli_fname).parent_path() / "grapevine" / kNetworkModuleFile);
  return candidates;
}

struct OpenModule {
  MakeNetwork* make = nullptr;
  std::string path;
};

// Never closed: LibTorch does not survive a dlclose.
Result<OpenModule> open_module_at(const fs::path& path) {
  const char* asked = std::getenv("GRAPEVINE_LIBTORCH");
  const auto torch = open_torch(asked ? asked : "", program_folder(), GRAPEVINE_TORCH_VERSION);
  if (!torch) return torch.error();
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = module ? dlsym(module, kNetworkModuleSymbol) : nullptr;
  if (symbol != nullptr) return OpenModule{reinterpret_cast<MakeNetwork*>(symbol), path};
  const char* failure = dlerror();
  const std::string why = failure ? failure : "no reason given";
  if (torch->empty() && why.starts_with("lib"))  // a library that the module needs
    return world_error(
        fmt::format("networks need PyTorch {} beside the program (pip install torch=={}) or in "
                    "GRAPEVINE_LIBTORCH, the folder that holds torch/lib: {}",
                    GRAPEVINE_TORCH_VERSION, GRAPEVINE_TORCH_VERSION, why));
  return world_error(fmt::format("cannot load the network module {}: {}", path.string(), why));
}

Result<OpenModule> open_module() {
  std::string looked_at;
  for (const fs::path& path : module_candidates()) {
    std::error_code unreadable;
    if (!fs::exists(path, unreadable)) {
      looked_at += (looked_at.empty() ? "" : ", ") + path.parent_path().string();
      continue;
    }
    return open_module_at(path);
  }
  return world_error(
      fmt::format("networks need {} (built where LibTorch is found), which is in none of: {}",
                  kNetworkModuleFile, looked_at));
}

bool is_script(const std::string& model) { return model.ends_with(".pt"); }

/// The partition of the spec; "auto" chooses the usual one for the data.
Result<Dealt> deal_out(const ObjectiveSpec& spec, size_t samples,
                       std::span<const uint16_t> labels) {
  GV_CHECK(samples <= size_t{std::numeric_limits<uint32_t>::max()});
  const std::string suits = is_text(spec.dataset) ? "contiguous" : "iid";
  auto dealt =
      deal(spec.partition == "auto" ? suits : spec.partition, static_cast<uint32_t>(samples),
           labels, spec.ranks, spec.seed, spec.validation_split);
  if (!dealt) return dealt;
  if (const size_t left = dealt->partition->samples(); static_cast<size_t>(spec.batch) > left)
    return user_error(
        fmt::format("batch is {}, accepted: 1 to {}, the number of samples", spec.batch, left));
  return dealt;
}

Result<NetworkInputs> classifier_inputs(const ObjectiveSpec& spec) {
  // Check the names first: reading the data takes half a second.
  const SampleShape any_image{1, 28, 28, true};
  const bool script = is_script(spec.model);
  if (spec.loss == "mse")
    return user_error(
        fmt::format("loss is mse, the targets of data set {} are classes, accepted: cross_entropy",
                    spec.dataset));
  const std::string model = script ? "linear" : spec.model;  // linear takes samples of any shape
  if (const auto known = plan_network(model, any_image, 10, true); !known) return known.error();
  Result<DataSet> data = read_data_set(spec.dataset, spec.data_dir);
  if (!data) return data.error();
  Result<NetworkPlan> plan =
      plan_network(model, data->train.shape, data->classes, spec.decay_norms_and_biases);
  if (!plan) return plan.error();
  auto dealt = deal_out(spec, data->train.count(), data->train.labels);
  if (!dealt) return dealt.error();
  return NetworkInputs{std::move(*plan), std::make_shared<const DataSet>(std::move(*data)), nullptr,
                       nullptr, std::move(*dealt)};
}

bool is_huge(int64_t side) { return side > std::numeric_limits<int>::max(); }

/// The shape of a user's image or row of features, for the built-in models.
Result<SampleShape> shape_of(const OwnData& data) {
  const std::vector<int64_t>& s = data.train_inputs.shape;
  if (s.size() < 2 || s.size() > 4 || std::any_of(s.begin() + 1, s.end(), is_huge))
    return user_error(
        fmt::format("{} has samples of {} dimensions, accepted by the built-in models: [features], "
                    "[height, width] or [channels, height, width]",
                    data.name, s.size() - 1));
  const auto side = [&s](size_t k) { return static_cast<int>(s[k]); };
  if (s.size() == 2) return SampleShape{side(1), 1, 1, false};
  if (s.size() == 3) return SampleShape{1, side(1), side(2), true};
  return SampleShape{side(1), side(2), side(3), true};
}

/// Reads the user's file and sets the loss that its targets need.
Result<NetworkInputs> own_inputs(ObjectiveSpec& spec) {
  Result<OwnData> read = read_own_data(spec.dataset, spec.loss);
  if (!read) return read.error();
  const auto data = std::make_shared<const OwnData>(std::move(*read));
  spec.loss = data->has_classes() ? "cross_entropy" : "mse";
  NetworkPlan plan;
  if (!is_script(spec.model)) {
    const auto shape = shape_of(*data);
    if (!shape) return shape.error();
    const int outputs = spec.loss == "mse" ? std::max(1, data->outputs) : data->classes;
    auto planned = plan_network(spec.model, *shape, outputs, spec.decay_norms_and_biases);
    if (!planned) return planned.error();
    plan = std::move(*planned);
  }
  const StoredTensor& targets = data->train_targets;
  std::vector<uint16_t> labels(data->has_classes() ? static_cast<size_t>(targets.shape[0]) : 0);
  for (size_t k = 0; k < labels.size(); ++k)  // little-endian: the low bytes come first
    std::memcpy(&labels[k], targets.bytes.data() + k * sizeof(int64_t), sizeof labels[k]);
  auto dealt = deal_out(spec, static_cast<size_t>(targets.shape[0]), labels);
  if (!dealt) return dealt.error();
  return NetworkInputs{std::move(plan), nullptr, nullptr, data, std::move(*dealt)};
}

Result<NetworkInputs> language_inputs(ObjectiveSpec& spec) {
  if (const auto shape = *transformer_of(spec.model); shape && shape->context > 0)
    spec.window = shape->context;
  if (spec.window < 1) {
    return user_error(fmt::format("window is {}, accepted: 1 or more", spec.window));
  }
  const TokenUnit unit = spec.model == kWordModel ? TokenUnit::word : TokenUnit::character;
  const size_t window = static_cast<size_t>(spec.window);
  Result<TextSet> text = read_text_set(spec.dataset, spec.data_dir, unit, window + 1);
  if (!text) return text.error();
  NetworkPlan plan = plan_language_model(spec.model, static_cast<int>(text->vocabulary.size()),
                                         spec.window, spec.decay_norms_and_biases);
  std::vector<uint16_t> labels;  // the label of a window is the speaker at its beginning
  const size_t windows = (text->train.size() - 1) / window;
  for (size_t k = 0; k < windows && !text->speakers.empty(); ++k)
    labels.push_back(text->speakers[k * window]);
  auto dealt = deal_out(spec, windows, labels);
  if (!dealt) return dealt.error();
  return NetworkInputs{std::move(plan), nullptr, std::make_shared<const TextSet>(std::move(*text)),
                       nullptr, std::move(*dealt)};
}

template <class T>
void add(Checksum& sum, const std::vector<T>& values) {
  const uint64_t count = values.size();
  sum.add(&count, sizeof count);
  sum.add(values.data(), values.size() * sizeof(T));
}

uint64_t hash_of(const NetworkInputs& inputs) {
  Checksum sum;
  if (inputs.data)
    for (const Samples* part : {&inputs.data->train, &inputs.data->test}) {
      add(sum, part->pixels);
      add(sum, part->features);
      add(sum, part->labels);
    }
  if (inputs.text) add(sum, inputs.text->train), add(sum, inputs.text->validation);
  if (inputs.own)
    for (const StoredTensor* part : {&inputs.own->train_inputs, &inputs.own->train_targets,
                                     &inputs.own->test_inputs, &inputs.own->test_targets}) {
      add(sum, part->shape);
      add(sum, part->bytes);
    }
  return sum.value();
}

}  // namespace

Status check_gradients(const ObjectiveSpec& spec) {
  if (!(spec.clip >= 0 && std::isfinite(spec.clip)))
    return user_error("clip is " + shown(spec.clip) + ", accepted: 0 or more");
  if (spec.precision != kFp32 && spec.precision != kBf16)
    return user_error("precision is \"" + spec.precision + "\", accepted: fp32, bf16");
  return Done{};
}

Result<std::unique_ptr<Objective>> make_network(const ObjectiveSpec& spec) {
  if (spec.batch < 1) {
    return user_error(fmt::format("batch is {}, accepted: 1 or more", spec.batch));
  }
  if (Status fits = check_gradients(spec); !fits) return fits.error();
  if (spec.loss != "auto" && spec.loss != "cross_entropy" && spec.loss != "mse")
    return user_error(fmt::format("loss is \"{}\", accepted: auto, cross_entropy, mse", spec.loss));
  if (const auto shape = transformer_of(spec.model); !shape) return shape.error();
  const bool is_of_text = reads_text(spec.model);
  if (is_of_text && !is_text(spec.dataset)) {
    return user_error(
        fmt::format("model {} reads text, the data set is \"{}\", accepted: text:FILE, "
                    "tiny-shakespeare, wikitext-2",
                    spec.model, spec.dataset));
  }
  if (!is_of_text && is_text(spec.dataset)) {
    return user_error(fmt::format(
        "model is \"{}\" and data set {} is text, accepted: lm-char, lm-word, gpt-char, "
        "gpt:LAYERSxHEADSxWIDTH",
        spec.model, spec.dataset));
  }
  ObjectiveSpec told = spec;
  Result<NetworkInputs> inputs = is_own_data(spec.dataset) ? own_inputs(told)
                                 : is_of_text              ? language_inputs(told)
                                                           : classifier_inputs(spec);
  if (!inputs) return inputs.error();
  told.data_hash = hash_of(*inputs);
  const Result<OpenModule> module = open_module();
  if (!module) return module.error();
  Result<std::unique_ptr<Objective>> made = world_error("the network module made nothing");
  (*module->make)(told, std::move(*inputs), made);
  return made;
}

Result<std::string> open_network_module() {
  const Result<OpenModule> module = open_module();
  if (!module) return module.error();
  return module->path;
}

}  // namespace grapevine
