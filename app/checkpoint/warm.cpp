#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <grapevine/checkpoint.hpp>
#include <set>

#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "kernels/passes/ops.hpp"
#include "models/files/model_file.hpp"
#include "models/files/state_dict_reader.hpp"
#include "models/warm_start.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

std::string shown(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t d : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

double number(const StoredTensor& tensor, size_t k) {
  if (tensor.type == TensorType::f64) {
    double value;
    std::memcpy(&value, tensor.bytes.data() + k * sizeof value, sizeof value);
    return value;
  }
  float value;
  std::memcpy(&value, tensor.bytes.data() + k * sizeof value, sizeof value);
  return static_cast<double>(value);
}

void put(Vec to, size_t k, double value) {
  if (to.dtype == DType::f64) {
    to.as<double>()[k] = value;
  } else {
    to.as<float>()[k] = static_cast<float>(value);
  }
}

/// Takes tensors out of a file by a layout's names and shapes.
class Taker {
 public:
  explicit Taker(const std::vector<StoredTensor>& stored) : stored_(stored) {}

  void take(const ParameterLayout& layout, Vec x) {
    for (const ParameterEntry& entry : layout.entries()) {
      const auto found = std::find_if(stored_.begin(), stored_.end(),
                                      [&](const StoredTensor& t) { return t.name == entry.name; });
      if (found == stored_.end()) {
        complain(fmt::format("has no tensor {} of shape {}", entry.name, shown(entry.shape)));
        continue;
      }
      used_.insert(entry.name);
      if (found->shape != entry.shape || found->type == TensorType::i64) {
        complain(fmt::format(
            "tensor {} has shape {}{}, accepted: {}", entry.name, shown(found->shape),
            found->type == TensorType::i64 ? " of whole numbers" : "", shown(entry.shape)));
        continue;
      }
      for (size_t k = 0; k < entry.size(); ++k)
        put(x, entry.offset + k, number(*found, k));
    }
  }
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const StoredTensor& t : stored_)
      if (used_.count(t.name) == 0 && !t.name.ends_with(".num_batches_tracked"))
        names.push_back(t.name);
    return names;
  }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void complain(std::string line) { complaints_.push_back(std::move(line)); }

  const std::vector<StoredTensor>& stored_;
  std::set<std::string> used_;
  std::vector<std::string> complaints_;
};

void say(const std::string& path, const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    std::fprintf(stderr, "%s: %s\n", path.c_str(), line.c_str());
}

Error refused(const std::string& path, const std::string& why) {
  return user_error(fmt::format("init is \"{}\", {}", path, why));
}

Error refused_tensors(const std::string& path, size_t count) {
  return refused(path, fmt::format("of which {} tensor{} fit the model, accepted: all", count,
                                   count == 1 ? " does not" : "s do not"));
}

// What of a checkpoint's tensors does not fit, a line each. None: it is not their names or shapes,
// or an older program has not told them.
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
  const auto stored = is_state_dict(path) ? read_state_dict(path) : read_safetensors(path);
  if (!stored) return user_error(stored.error().message);
  const ParameterLayout& layout = objective.layout();
  const ParameterLayout& statistics = objective.statistics();
  Buffer x(layout.size(), layout.dtype()), running(statistics.size(), statistics.dtype());
  Taker taker(*stored);
  taker.take(layout, x);
  taker.take(statistics, running);
  say(path, taker.complaints());
  if (const size_t count = taker.complaints().size(); count > 0)
    return refused_tensors(path, count);
  for (const std::string& name : taker.unused())
    say(path, {fmt::format("tensor {} is not used", name)});
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
