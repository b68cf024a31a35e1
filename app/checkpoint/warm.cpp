#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <grapevine/checkpoint.hpp>
#include <map>
#include <set>

#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/passes/ops.hpp"
#include "models/files/tensor_file.hpp"
#include "models/warm_start.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

void put(Vec to, size_t k, double value) {
  if (to.dtype == DType::f64) {
    to.as<double>()[k] = value;
  } else {
    to.as<float>()[k] = static_cast<float>(value);
  }
}

/// The names of a model's tensors in a file: those of the layout, or with prefixes of a wrapper
/// around the saved model: "module.fc.weight" of DistributedDataParallel, "_orig_mod.fc.weight" of
/// torch.compile, "model.fc.weight" of Lightning.
class NamesInFile {
 public:
  NamesInFile(const TensorFile& file, const ParameterLayout& layout) {
    for (const TensorInfo& info : file.tensors())
      by_name_.emplace(info.name, &info);
    for (const TensorInfo& info : file.tensors())
      by_name_.emplace(unwrapped(info.name), &info);
    if (layout.entries().empty()) return;
    const std::string first = layout.entries().front().name;
    if (by_name_.count(first) > 0) return;
    std::set<const TensorInfo*> firsts;  // each has its own name and what that is unwrapped
    for (const auto& [name, info] : by_name_) {
      if (!name.ends_with("." + first) || firsts.count(info) > 0) continue;
      const std::string prefix = name.substr(0, name.size() - first.size());
      const bool has_all = std::all_of(
          layout.entries().begin(), layout.entries().end(),
          [&](const ParameterEntry& entry) { return by_name_.count(prefix + entry.name) > 0; });
      if (!has_all) continue;
      prefixes_.push_back(prefix);
      firsts.insert(info);
    }
  }

  /// More than one: the file has several such models.
  const std::vector<std::string>& prefixes() const { return prefixes_; }

  const TensorInfo* find(const std::string& name) const {
    const auto found = by_name_.find(prefixes_.empty() ? name : prefixes_.front() + name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  static std::string unwrapped(std::string name) {
    for (const std::string wrapper :
         {"_orig_mod.", "module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."})
      for (size_t at = name.find(wrapper); at != name.npos; at = name.find(wrapper, at))
        if (at == 0 || name[at - 1] == '.')
          name.erase(at, wrapper.size());
        else
          ++at;
    return name;
  }

  std::map<std::string, const TensorInfo*> by_name_;
  std::vector<std::string> prefixes_;
};

/// Takes tensors from a file by a layout's names and shapes.
class Taker {
 public:
  Taker(const TensorFile& file, const NamesInFile& names) : file_(file), names_(names) {}

  void take(const ParameterLayout& layout, Vec x) {
    for (const ParameterEntry& entry : layout.entries()) {
      const TensorInfo* info = names_.find(entry.name);
      if (info == nullptr) {
        complain(fmt::format("has no tensor {} of shape {}", entry.name, shown(entry.shape)));
        continue;
      }
      used_.insert(info->name);
      const Status taken = take(*info, entry, x.part(entry.offset, entry.size()));
      if (!taken) complain(without_path(taken.error().message));
    }
  }
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const TensorInfo& info : file_.tensors())
      if (used_.count(info.name) == 0 && !info.name.ends_with(".num_batches_tracked"))
        names.push_back(info.name);
    return names;
  }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void complain(std::string line) { complaints_.push_back(std::move(line)); }
  // All of the lines are said under it.
  std::string without_path(const std::string& line) const {
    const std::string head = file_.path() + ": ";
    return line.starts_with(head) ? line.substr(head.size()) : line;
  }

  Status take(const TensorInfo& info, const ParameterEntry& entry, Vec to) const {
    const auto refused = [&](const std::vector<int64_t>& shape) {
      return world_error(fmt::format("tensor {} has shape {}, accepted: {}", info.name,
                                     shown(shape), shown(entry.shape)));
    };
    const bool is_known = info.type != TensorType::other;  // else its reader finds out
    if (is_known && info.shape != entry.shape) return refused(info.shape);
    auto tensor = file_.read(info);
    if (!tensor) return tensor.error();
    if (tensor->shape != entry.shape) return refused(tensor->shape);
    if (!is_float(tensor->type))
      return world_error(fmt::format("tensor {} is of whole numbers, accepted: floats", info.name));
    copy_numbers(*tensor, to);
    if (!all_finite({}, to))
      return world_error(fmt::format("tensor {} has a number that is not finite", info.name));
    return Done{};
  }

  const TensorFile& file_;
  const NamesInFile& names_;
  std::set<std::string> used_;
  std::vector<std::string> complaints_;
};

/// The first few, and the number of the others.
void say(const std::string& path, const std::vector<std::string>& lines) {
  constexpr size_t kTold = 20;
  for (size_t k = 0; k < std::min(kTold, lines.size()); ++k)
    std::fprintf(stderr, "%s\n", printable(path + ": " + lines[k]).c_str());
  if (lines.size() > kTold)
    std::fprintf(stderr, "%s: and %zu more\n", printable(path).c_str(), lines.size() - kTold);
}

Error refused(const std::string& path, const std::string& why) {
  return user_error(fmt::format("init is \"{}\", {}", path, why));
}

Error refused_tensors(const std::string& path, size_t count) {
  return refused(path, fmt::format("of which {} tensor{} fit the model, accepted: all", count,
                                   count == 1 ? " does not" : "s do not"));
}

// The tensors of a checkpoint that do not fit, a line each. Empty: names and shapes fit, or an
// older program did not record them.
std::vector<std::string> misfits(const std::vector<TensorShape>& recorded,
                                 const ParameterLayout& layout) {
  std::vector<std::string> lines;
  if (recorded.empty()) return lines;
  std::set<std::string> wanted;
  for (const ParameterEntry& entry : layout.entries()) {
    wanted.insert(entry.name);
    const auto found = std::find_if(recorded.begin(), recorded.end(),
                                    [&](const TensorShape& t) { return t.name == entry.name; });
    if (found == recorded.end())
      lines.push_back(fmt::format("has no tensor {} of shape {}", entry.name, shown(entry.shape)));
    else if (found->shape != entry.shape)
      lines.push_back(fmt::format("tensor {} has shape {}, accepted: {}", entry.name,
                                  shown(found->shape), shown(entry.shape)));
  }
  for (const TensorShape& tensor : recorded)
    if (wanted.count(tensor.name) == 0)
      lines.push_back(fmt::format("tensor {} of shape {} is none of the model's", tensor.name,
                                  shown(tensor.shape)));
  return lines;
}

Result<Buffer> from_file(const std::string& path, Objective& objective, int ranks) {
  const auto file = TensorFile::open(path);
  if (!file) return user_error(file.error().message);
  const ParameterLayout& layout = objective.layout();
  const ParameterLayout& statistics = objective.statistics();
  const NamesInFile names(*file, layout);
  if (names.prefixes().size() > 1)
    return refused(path, fmt::format("which has several models of these tensors, under {} and {}, "
                                     "accepted: one",
                                     names.prefixes()[0], names.prefixes()[1]));
  Buffer x(layout.size(), layout.dtype()), running(statistics.size(), statistics.dtype());
  Taker taker(*file, names);
  taker.take(layout, x);
  taker.take(statistics, running);
  say(path, taker.complaints());
  if (const size_t count = taker.complaints().size(); count > 0)
    return refused_tensors(path, count);
  std::vector<std::string> lines;
  for (const std::string& name : taker.unused())
    lines.push_back(fmt::format("tensor {} is not used", name));
  say(path, lines);
  for (int rank = 0; rank < ranks; ++rank)
    objective.set_statistics(rank, 0, running);
  return x;
}

Result<Buffer> from_checkpoint(const std::string& path, Objective& objective, int ranks) {
  auto checkpoint = load_checkpoint(real_disk(), path);
  if (!checkpoint) return checkpoint.error();
  const ParameterLayout& layout = objective.layout();
  const RunIdentity& of = checkpoint->manifest.run;
  if (of.layout != layout.hash()) {
    const std::vector<std::string> lines = misfits(of.tensors, layout);
    say(path, lines);
    return lines.empty() ? refused(path, "a checkpoint of " + of.job_is +
                                             ", accepted: one of the same tensors")
                         : refused_tensors(path, lines.size());
  }
  const auto mean_of = [&](size_t size, DType dtype, auto&& vector) -> Result<Buffer> {
    Buffer sum(size, DType::f64), mean(size, dtype);
    for (const RankRecordPtr& record : checkpoint->ranks) {
      const Buffer& values = vector(*record);
      if (values.size() != size || (size > 0 && values.dtype() != dtype))
        return refused(path, "whose vectors have other sizes than its manifest says");
      const Buffer zero(size, DType::f64);
      if (size > 0) add_deviation({}, values, zero, sum);
    }
    if (size > 0)
      for (size_t k = 0; k < size; ++k)
        put(mean, k, sum.vec().as<double>()[k] / static_cast<double>(checkpoint->ranks.size()));
    return mean;
  };
  auto x = mean_of(layout.size(), layout.dtype(),
                   [](const RankRecord& r) -> const Buffer& { return r.vectors.front().values; });
  if (!x) return x.error();
  const auto running = mean_of(objective.statistics().size(), objective.statistics().dtype(),
                               [](const RankRecord& r) -> const Buffer& { return r.statistics; });
  if (!running) return running.error();
  for (int rank = 0; rank < ranks; ++rank)
    objective.set_statistics(rank, 0, *running);
  return x;
}

}  // namespace

Result<std::shared_ptr<Objective>> warm_start(const std::string& init, int ranks,
                                              std::shared_ptr<Objective> objective) {
  if (init.empty()) return objective;
  const fs::path path = init, model = path / "model.safetensors";
  std::error_code unreadable;
  const bool is_folder = fs::is_directory(path, unreadable);
  const bool has_model = is_folder && fs::exists(model, unreadable);
  auto start = !is_folder  ? from_file(path.string(), *objective, ranks)
               : has_model ? from_file(model.string(), *objective, ranks)
                           : from_checkpoint(path.string(), *objective, ranks);
  if (!start) return start.error();
  return begun_at(std::move(*start), std::move(objective));
}

}  // namespace grapevine
