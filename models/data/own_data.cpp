#include "models/data/own_data.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>

#include "kernels/base/spec.hpp"
#include "models/data/npz.hpp"
#include "models/data/text.hpp"

namespace grapevine {
namespace {

constexpr size_t kHoldOut = 10;  // without samples for the test, every tenth is kept for it
constexpr int64_t kMostClasses = 1 << 16;
constexpr size_t kMostColumns = 1 << 16;

size_t rows_of(const StoredTensor& t) {
  return t.shape.empty() ? 0 : static_cast<size_t>(t.shape[0]);
}

std::string shown(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t side : shape)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", side);
  return text + "]";
}

template <class From>
void narrow(StoredTensor& t) {
  Bytes out(t.bytes.size() / sizeof(From) * sizeof(float));
  for (size_t k = 0; k < t.bytes.size() / sizeof(From); ++k) {
    From value;
    std::memcpy(&value, t.bytes.data() + k * sizeof(From), sizeof(From));
    const auto number = static_cast<float>(value);
    std::memcpy(out.data() + k * sizeof(float), &number, sizeof(float));
  }
  t.bytes = std::move(out);
  t.type = TensorType::f32;
}

void to_floats(StoredTensor& t) {
  if (t.type == TensorType::f64) narrow<double>(t);
  if (t.type == TensorType::i64) narrow<int64_t>(t);
}

/// Every tenth row goes; what stays is returned first.
std::pair<StoredTensor, StoredTensor> held_out(const StoredTensor& all) {
  StoredTensor train = all, test = all;
  train.bytes.clear(), test.bytes.clear();
  const size_t rows = rows_of(all), row_bytes = rows == 0 ? 0 : all.bytes.size() / rows;
  for (size_t k = 0; k < rows; ++k) {
    Bytes& to = k % kHoldOut == kHoldOut - 1 ? test.bytes : train.bytes;
    const auto first = all.bytes.begin() + static_cast<std::ptrdiff_t>(k * row_bytes);
    to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(row_bytes));
  }
  if (all.shape.empty()) return {train, test};
  test.shape[0] = static_cast<int64_t>(rows / kHoldOut);
  train.shape[0] = static_cast<int64_t>(rows - rows / kHoldOut);
  return {train, test};
}

/// The tensor of one of these names, taken out.
std::optional<StoredTensor> take(std::vector<StoredTensor>& tensors,
                                 std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (StoredTensor& tensor : tensors)
      if (tensor.name == name) return std::move(tensor);
  return std::nullopt;
}

Result<OwnData> from_tensors(const std::string& path, std::vector<StoredTensor> tensors) {
  std::string there;
  for (const StoredTensor& t : tensors)
    if (there.size() < 200) there += (there.empty() ? "" : ", ") + quoted(t.name);
  auto inputs = take(tensors, {"train_inputs", "x_train", "inputs"});
  auto targets = take(tensors, {"train_targets", "y_train", "targets"});
  auto test_inputs = take(tensors, {"test_inputs", "x_test"});
  auto test_targets = take(tensors, {"test_targets", "y_test"});
  if (!inputs || !targets || test_inputs.has_value() != test_targets.has_value())
    return user_error(
        fmt::format("{} has tensors {}, accepted: train_inputs, train_targets, test_inputs and "
                    "test_targets, or inputs and targets",
                    path, there.empty() ? "none" : there));
  OwnData data;
  if (test_inputs) {
    data.train_inputs = std::move(*inputs), data.test_inputs = std::move(*test_inputs);
    data.train_targets = std::move(*targets), data.test_targets = std::move(*test_targets);
  } else {
    std::tie(data.train_inputs, data.test_inputs) = held_out(*inputs);
    std::tie(data.train_targets, data.test_targets) = held_out(*targets);
  }
  return data;
}

// --- tables

struct Table {
  std::vector<std::string> names;
  std::vector<double> numbers;  // row by row
};

Result<Table> read_table(const std::string& path) {
  const Result<Bytes> file = read_whole_file(path, size_t{16} << 30);
  if (!file) return file.error();
  Table table;
  const Status ok = for_each_line(path, *file, [&](std::string_view line) -> Status {
    const std::vector<std::string_view> fields = split(line, ',');
    if (table.names.empty()) {
      if (fields.size() < 2 || fields.size() > kMostColumns)
        return user_error(with_commas(fields.size()) +
                          " columns, accepted: 2 or more, separated by commas");
      if (number_of<double>(fields[0]))
        return user_error(quoted(fields[0]) + ", accepted: first a line with the columns' names");
      table.names.assign(fields.begin(), fields.end());
      return Done{};
    }
    if (fields.size() != table.names.size())
      return user_error(fmt::format("{} columns, accepted: {}, as in the first line",
                                    with_commas(fields.size()), with_commas(table.names.size())));
    for (const std::string_view field : fields) {
      const auto number = number_of<double>(field);
      if (!number) return user_error(quoted(field) + ", accepted: a number");
      table.numbers.push_back(*number);
    }
    return Done{};
  });
  if (!ok) return user_error(ok.error().message);
  return table;
}

template <class T>
void put(Bytes& to, T value) {
  const auto* first = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), first, first + sizeof value);
}

Result<OwnData> from_table(const std::string& path) {
  const Result<Table> table = read_table(path);
  if (!table) return table.error();
  const size_t columns = table->names.size(), rows = table->numbers.size() / columns;
  size_t target = columns - 1;
  for (size_t k = 0; k < columns; ++k)
    if (table->names[k] == "target" || table->names[k] == "label") target = k;
  bool whole = true;
  for (size_t row = 0; row < rows; ++row) {
    const double value = table->numbers[row * columns + target];
    whole = whole && value == std::floor(value) && value >= 0 && value < kMostClasses;
  }
  StoredTensor inputs{"inputs", {int64_t(rows), int64_t(columns) - 1}, TensorType::f32, {}};
  StoredTensor targets{"targets", {int64_t(rows)}, whole ? TensorType::i64 : TensorType::f32, {}};
  for (size_t k = 0; k < table->numbers.size(); ++k) {
    const double value = table->numbers[k];
    if (k % columns != target)
      put(inputs.bytes, static_cast<float>(value));
    else if (whole)
      put(targets.bytes, static_cast<int64_t>(value));
    else
      put(targets.bytes, static_cast<float>(value));
  }
  return from_tensors(path, {std::move(inputs), std::move(targets)});
}

// --- what can be trained on

/// What is wrong with some samples; empty when nothing is.
std::string complaint_of(const StoredTensor& inputs, const StoredTensor& targets) {
  if (rows_of(inputs) == 0) return "has no samples";
  if (inputs.shape.size() < 2)
    return fmt::format("has shape {}, accepted: [samples, ...]", shown(inputs.shape));
  if (std::count(inputs.shape.begin(), inputs.shape.end(), 0) > 0)
    return fmt::format("has shape {}, accepted: no side of 0", shown(inputs.shape));
  if (rows_of(inputs) > std::numeric_limits<uint32_t>::max()) return "has more than 2^32 samples";
  if (rows_of(targets) != rows_of(inputs) || targets.bytes.empty())
    return fmt::format("has shape {}, its targets {}, accepted: as many of both",
                       shown(inputs.shape), shown(targets.shape));
  for (const StoredTensor* t : {&inputs, &targets}) {
    if (t->type != TensorType::f32) continue;
    for (size_t k = 0; k < t->bytes.size() / sizeof(float); ++k) {
      float value;
      std::memcpy(&value, t->bytes.data() + k * sizeof value, sizeof value);
      if (!std::isfinite(value))
        return fmt::format("has a number that is not finite in sample {}",
                           k / (t->bytes.size() / sizeof(float) / rows_of(*t)));
    }
  }
  return "";
}

/// Sets `classes` from both parts; a class that is out of range is told.
std::string count_classes(OwnData& data) {
  for (const StoredTensor* targets : {&data.train_targets, &data.test_targets})
    for (size_t k = 0; k < rows_of(*targets); ++k) {
      int64_t label = 0;
      std::memcpy(&label, targets->bytes.data() + k * sizeof label, sizeof label);
      if (label < 0 || label >= kMostClasses)
        return fmt::format("has class {} in sample {}, accepted: 0 to {}", label, k,
                           kMostClasses - 1);
      data.classes = std::max(data.classes, static_cast<int>(label) + 1);
    }
  return "";
}

Result<OwnData> checked(const std::string& path, OwnData data) {
  const auto wrong = [&](const char* part, const std::string& why) {
    return user_error(fmt::format("{}: {} {}", path, part, why));
  };
  to_floats(data.train_inputs), to_floats(data.test_inputs);
  for (StoredTensor* targets : {&data.train_targets, &data.test_targets}) {
    const bool column = targets->shape.size() == 2 && targets->shape[1] == 1;
    if (column) targets->shape.pop_back();
    if (targets->type != TensorType::i64 || targets->shape.size() != 1) to_floats(*targets);
  }
  if (data.train_targets.type != data.test_targets.type)
    to_floats(data.train_targets), to_floats(data.test_targets);
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
  if (data.has_classes()) {
    why = count_classes(data);
    if (!why.empty()) return wrong("targets", why);
  } else {
    data.outputs = static_cast<int>(data.train_targets.bytes.size() / sizeof(float) /
                                    rows_of(data.train_targets));
  }
  return data;
}

}  // namespace

std::string OwnData::description() const {
  std::string text =
      fmt::format("{}: {} + {} samples of {}", name, with_commas(rows_of(train_inputs)),
                  with_commas(rows_of(test_inputs)),
                  shown({train_inputs.shape.begin() + 1, train_inputs.shape.end()}));
  return text + (has_classes() ? fmt::format(", {} classes", classes)
                               : fmt::format(", {} targets each", outputs));
}

bool is_own_data(const std::string& dataset) {
  return dataset.ends_with(".safetensors") || dataset.ends_with(".npz") ||
         dataset.ends_with(".csv");
}

Result<OwnData> read_own_data(const std::string& path) {
  Result<OwnData> data = user_error("");
  if (path.ends_with(".csv")) {
    data = from_table(path);
  } else {
    auto tensors = path.ends_with(".npz") ? read_npz(path) : read_safetensors(path);
    data = tensors ? from_tensors(path, std::move(*tensors)) : Result<OwnData>(tensors.error());
  }
  if (!data) return user_error(data.error().message);
  data = checked(path, std::move(*data));
  if (data) data->name = path;
  return data;
}

}  // namespace grapevine
