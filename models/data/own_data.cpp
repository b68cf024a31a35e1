#include "models/data/own_data.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <span>
#include <string_view>

#include "kernels/base/spec.hpp"
#include "models/data/table.hpp"
#include "models/data/text.hpp"
#include "models/files/tensor_file.hpp"

namespace grapevine {
namespace {

constexpr size_t kOwnHoldOut = 10;  // without test samples: every tenth sample is for the test
constexpr int64_t kMostOwnClasses = 1 << 16;

size_t rows_of(const StoredTensor& t) {
  return t.shape.empty() ? 0 : static_cast<size_t>(t.shape[0]);
}

size_t numbers_of(const StoredTensor& t) { return t.bytes.size() / size_of(t.type); }

void to_floats(StoredTensor& t) {
  if (t.type == TensorType::f32) return;
  Bytes floats(numbers_of(t) * sizeof(float));
  copy_numbers(t, Vec(floats.data(), numbers_of(t), DType::f32));
  t.bytes = std::move(floats);
  t.type = TensorType::f32;
}

/// The error in the samples; empty: there is none.
std::string complaint_of(const StoredTensor& inputs, const StoredTensor& targets) {
  if (rows_of(inputs) == 0) return "has no samples";
  if (inputs.shape.size() < 2)
    return fmt::format("has shape {}, accepted: [samples, ...]", shown(inputs.shape));
  if (std::count(inputs.shape.begin(), inputs.shape.end(), 0) > 0)
    return fmt::format("has shape {}, accepted: no side of 0", shown(inputs.shape));
  constexpr size_t kMostSides = 16;
  if (inputs.shape.size() > kMostSides)
    return fmt::format("has {} dimensions, accepted: 2 to {}", inputs.shape.size(), kMostSides);
  if (rows_of(inputs) > std::numeric_limits<uint32_t>::max()) return "has more than 2^32 samples";
  if (rows_of(targets) != rows_of(inputs) || targets.bytes.empty())
    return fmt::format("has shape {}, its targets {}, accepted: as many of both",
                       shown(inputs.shape), shown(targets.shape));
  return "";
}

Error wrong_part(const std::string& path, const char* part, const std::string& why) {
  return user_error(fmt::format("{}: {} {}", path, part, why));
}

/// Removes every tenth row and returns those rows. REQUIRES: complaint_of() finds no error.
StoredTensor hold_out(StoredTensor& all) {
  StoredTensor test{all.name, all.shape, all.type, {}};
  const size_t rows = rows_of(all), row_bytes = all.bytes.size() / rows;
  uint8_t* to = all.bytes.data();
  for (size_t k = 0; k < rows; ++k) {
    const uint8_t* row = all.bytes.data() + k * row_bytes;
    if (k % kOwnHoldOut == kOwnHoldOut - 1) {
      test.bytes.insert(test.bytes.end(), row, row + row_bytes);
    } else {
      std::memmove(to, row, row_bytes);
      to += row_bytes;
    }
  }
  all.bytes.resize((rows - rows / kOwnHoldOut) * row_bytes);
  all.shape[0] = static_cast<int64_t>(rows - rows / kOwnHoldOut);
  test.shape[0] = static_cast<int64_t>(rows / kOwnHoldOut);
  return test;
}

Status hold_out_test(const std::string& path, OwnData& data) {
  const size_t rows = rows_of(data.train_inputs);
  if (rows < kOwnHoldOut)
    return user_error(
        fmt::format("{} has {} samples, accepted: {} or more, of which every tenth is "
                    "for the test",
                    path, rows, kOwnHoldOut));
  const std::string why = complaint_of(data.train_inputs, data.train_targets);
  if (!why.empty()) return wrong_part(path, "train_inputs", why);
  data.test_inputs = hold_out(data.train_inputs);
  data.test_targets = hold_out(data.train_targets);
  data.read_as += ", every tenth sample for the test";
  return Done{};
}

// --- tensors

enum class Part { all, train, test };

/// "x_train" is "x" of the part "train"; also "train_x", "trainX" and "X_train".
std::pair<Part, std::string> parts_of(const std::string& name) {
  std::string lower = in_lower_case(name);
  std::erase_if(lower, [](char c) { return c == '_' || c == '-' || c == '.'; });
  for (const auto& [word, part] :
       {std::pair("train", Part::train), std::pair("test", Part::test)}) {
    const size_t length = std::strlen(word);
    if (lower.starts_with(word)) return {part, lower.substr(length)};
    if (lower.ends_with(word)) return {part, lower.substr(0, lower.size() - length)};
  }
  return {Part::all, lower};
}

constexpr const char* kInputs[] = {"inputs", "input", "x", "images", "data", "features", "arr0"};
constexpr const char* kTargets[] = {"targets", "target", "y", "labels", "label", "arr1"};

/// The tensor of this part with the first of these names that occurs; null: there is none.
const TensorInfo* find(const TensorFile& file, Part part, std::span<const char* const> names) {
  for (const char* name : names)
    for (const TensorInfo& info : file.tensors())
      if (parts_of(info.name) == std::pair(part, std::string(name))) return &info;
  return nullptr;
}

Result<OwnData> from_tensors(const std::string& path) {
  const auto file = TensorFile::open(path);
  if (!file) return file.error();
  const TensorInfo* inputs = find(*file, Part::train, kInputs);
  const TensorInfo* targets = find(*file, Part::train, kTargets);
  const TensorInfo* test_inputs = find(*file, Part::test, kInputs);
  const TensorInfo* test_targets = find(*file, Part::test, kTargets);
  if (inputs == nullptr && targets == nullptr) {
    inputs = find(*file, Part::all, kInputs);
    targets = find(*file, Part::all, kTargets);
  }
  if (inputs == nullptr || targets == nullptr ||
      (test_inputs == nullptr) != (test_targets == nullptr)) {
    std::string there;
    for (const TensorInfo& info : file->tensors())
      if (there.size() < 200) there += (there.empty() ? "" : ", ") + excerpt(info.name);
    return user_error(
        fmt::format("{} has tensors {}, accepted: train_inputs, train_targets, test_inputs and "
                    "test_targets, or inputs and targets",
                    path, there.empty() ? "none" : there));
  }
  OwnData data;
  Status read = Done{};
  const auto take = [&](const TensorInfo* info, StoredTensor& to) {
    if (!read || info == nullptr) return;
    auto tensor = file->read(*info);
    if (tensor)
      to = std::move(*tensor);
    else
      read = tensor.error();
  };
  take(targets, data.train_targets);
  take(test_targets, data.test_targets);
  take(inputs, data.train_inputs);
  take(test_inputs, data.test_inputs);
  if (!read) return read.error();
  data.read_as =
      fmt::format("inputs {}, targets {}", excerpt(inputs->name), excerpt(targets->name));
  if (test_inputs == nullptr)
    if (Status held = hold_out_test(path, data); !held) return held.error();
  return data;
}

// --- tables

bool is_table(std::string_view name) {
  for (const std::string_view packed : {".gz", ".xz"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

// "a, b, c and 3 more".
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kNamed = 4;
  std::string text;
  for (size_t k = 0; k < std::min(kNamed, names.size()); ++k)
    text += (k > 0 ? ", " : "") + excerpt(names[k]);
  return names.size() <= kNamed ? text : fmt::format("{} and {} more", text, names.size() - kNamed);
}

Result<OwnData> from_table(const std::string& path, std::string& loss) {
  auto table = read_table(path);
  if (!table) return table.error();
  if (!table->classes.empty() && loss == "mse")
    return user_error(
        fmt::format("{}: loss is mse, the targets in column {} are names of classes, "
                    "accepted: cross_entropy",
                    path, excerpt(table->target)));
  OwnData data;
  const auto rows = static_cast<int64_t>(table->size());
  data.train_inputs = {"inputs",
                       {rows, static_cast<int64_t>(table->inputs.size())},
                       TensorType::f32,
                       std::move(table->rows)};
  const auto* first = reinterpret_cast<const uint8_t*>(table->targets.data());
  data.train_targets = {
      "targets", {rows}, TensorType::f64, Bytes(first, first + table->size() * sizeof(double))};
  data.read_as = fmt::format("target {}, inputs {}", excerpt(table->target), listed(table->inputs));
  if (!table->left_out.empty())
    data.read_as +=
        fmt::format(", without column {}, which numbers the rows", excerpt(table->left_out));
  if (Status held = hold_out_test(path, data); !held) return held.error();
  if (table->classes.empty()) return data;
  loss = "cross_entropy";
  data.read_as += fmt::format("; the classes are {}", listed(table->classes));
  return data;
}

// --- targets and tasks

/// "has a number that is not finite in sample K"; empty: there is none.
std::string not_finite(const StoredTensor& t) {
  for (size_t k = 0; t.type == TensorType::f32 && k < numbers_of(t); ++k) {
    float value;
    std::memcpy(&value, t.bytes.data() + k * sizeof value, sizeof value);
    if (!std::isfinite(value))
      return fmt::format("has a number that is not finite in sample {}",
                         k / (numbers_of(t) / rows_of(t)));
  }
  return "";
}

/// The targets of both parts as numbers, to decide whether they can be classes.
class Targets {
 public:
  explicit Targets(OwnData& data) : data_(data) {
    for (const StoredTensor* t : {&data.train_targets, &data.test_targets}) {
      one_each_ = one_each_ && t->shape.size() == 1;
      const size_t before = values_.size();
      values_.resize(before + numbers_of(*t));
      copy_numbers(*t, Vec(values_.data() + before, numbers_of(*t), DType::f64));
    }
    if (one_each_ && !values_.empty()) number_negative_labels();
  }

  /// Why the targets cannot be classes; empty: they can.
  std::string no_classes() const {
    if (!one_each_) return fmt::format("has shape {}", shown(data_.train_targets.shape));
    for (size_t k = 0; k < values_.size(); ++k)
      if (const double v = values_[k]; !(v >= 0 && v < kMostOwnClasses && v == std::floor(v)))
        return fmt::format("has {} in sample {}", v, k);
    return "";
  }

  /// Whether loss "auto" takes them as classes. REQUIRES: no_classes() is empty.
  bool look_like_classes() const {
    constexpr double kAFew = 256;
    const double most = *std::max_element(values_.begin(), values_.end()) + 1;
    std::vector<bool> occurs(static_cast<size_t>(most), false);
    for (const double v : values_)
      occurs[static_cast<size_t>(v)] = true;
    const auto different = static_cast<double>(std::count(occurs.begin(), occurs.end(), true));
    return most <= kAFew || are_dense(different, most);
  }

  void make_classes() {
    if (!names_.empty()) data_.read_as += fmt::format("; the classes are {}", listed(names_));
    size_t at = 0;
    for (StoredTensor* t : {&data_.train_targets, &data_.test_targets}) {
      Bytes labels(numbers_of(*t) * sizeof(int64_t));
      for (size_t k = 0; k < numbers_of(*t); ++k, ++at) {
        const auto label = static_cast<int64_t>(values_[at]);
        data_.classes = std::max(data_.classes, static_cast<int>(label) + 1);
        std::memcpy(labels.data() + k * sizeof label, &label, sizeof label);
      }
      t->bytes = std::move(labels);
      t->type = TensorType::i64;
    }
  }

 private:
  // From 0 on, if they can be labels: -1 and 1, or a few numbers that lie close together.
  void number_negative_labels() {
    constexpr double kMostLabels = 16;
    const auto [least, most] = std::minmax_element(values_.begin(), values_.end());
    const double first = *least, range = *most - first + 1;
    const auto is_whole = [](double v) { return v == std::floor(v); };
    if (!(first < 0 && range <= kMostLabels) || !std::ranges::all_of(values_, is_whole)) return;
    std::set<double> labels(values_.begin(), values_.end());
    const bool are_signs = labels == std::set<double>{-1, 1};
    if (!are_signs && !are_dense(static_cast<double>(labels.size()), range)) return;
    for (double& value : values_)
      value = static_cast<double>(std::distance(labels.begin(), labels.find(value)));
    for (const double label : labels)
      names_.push_back(shown(label));
  }

  // So many different ones of a range can be learnt.
  bool are_dense(double different, double range) const {
    return 4 * different >= 3 * range && 2 * range <= static_cast<double>(values_.size());
  }

  OwnData& data_;
  bool one_each_ = true;
  std::vector<double> values_;
  std::vector<std::string> names_;  // of classes that are not their own numbers
};

/// Makes the targets classes or numbers, according to the loss and their values. Returns the error;
/// empty: there is none.
std::string choose_task(OwnData& data, const std::string& loss) {
  if (loss != "mse") {
    Targets targets(data);
    const std::string why = targets.no_classes();
    if (!why.empty() && loss == "cross_entropy")
      return fmt::format(
          "{}, with loss cross_entropy, accepted: one whole number a sample, 0 to {}; or loss mse",
          why, kMostOwnClasses - 1);
    if (why.empty() && (loss == "cross_entropy" || targets.look_like_classes())) {
      targets.make_classes();
      return data.classes > 1 ? "" : "has one class alone, accepted: two or more, or loss mse";
    }
  }
  to_floats(data.train_targets);
  to_floats(data.test_targets);
  data.outputs = static_cast<int>(numbers_of(data.train_targets) / rows_of(data.train_targets));
  return "";
}

Result<OwnData> checked(const std::string& path, OwnData data, const std::string& loss) {
  const auto wrong = [&](const char* part, const std::string& why) {
    return wrong_part(path, part, why);
  };
  for (StoredTensor* t : {&data.train_targets, &data.test_targets})
    if (t->shape.size() == 2 && t->shape[1] == 1) t->shape.pop_back();  // a single column
  std::string why = complaint_of(data.train_inputs, data.train_targets);
  if (!why.empty()) return wrong("train_inputs", why);
  why = complaint_of(data.test_inputs, data.test_targets);
  if (!why.empty()) return wrong("test_inputs", why);
  const auto rest = [](const StoredTensor& t) {
    return std::vector<int64_t>(t.shape.begin() + 1, t.shape.end());
  };
  if (rest(data.train_inputs) != rest(data.test_inputs) ||
      rest(data.train_targets) != rest(data.test_targets))
    return wrong("test_inputs",
                 "and its targets have samples of another shape than the training ones");
  why = choose_task(data, loss);
  if (!why.empty()) return wrong("targets", why);
  to_floats(data.train_inputs);
  to_floats(data.test_inputs);
  for (const auto& [part, tensor] :
       {std::pair("train_inputs", &data.train_inputs), std::pair("test_inputs", &data.test_inputs),
        std::pair("train_targets", &data.train_targets),
        std::pair("test_targets", &data.test_targets)})
    if (why = not_finite(*tensor); !why.empty()) return wrong(part, why);
  return data;
}

}  // namespace

std::string OwnData::description() const {
  const std::string task =
      has_classes() ? fmt::format("{} classes", classes)
                    : fmt::format("{} number{} to predict", outputs, outputs == 1 ? "" : "s");
  return fmt::format("samples of {}, {}; {} ({})",
                     shown({train_inputs.shape.begin() + 1, train_inputs.shape.end()}), task,
                     read_as, name);
}

bool is_own_data(const std::string& dataset) {
  const std::string name = in_lower_case(dataset);
  return is_table(name) || name.ends_with(".safetensors") || name.ends_with(".npz");
}

Result<OwnData> read_own_data(const std::string& path, const std::string& loss) {
  std::string wanted = loss;
  Result<OwnData> data =
      is_table(in_lower_case(path)) ? from_table(path, wanted) : from_tensors(path);
  if (!data) return user_error(data.error().message);
  data = checked(path, std::move(*data), wanted);
  if (data) data->name = path;
  return data;
}

}  // namespace grapevine
