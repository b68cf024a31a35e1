#include "models/data/data_set.hpp"

#include <fmt/core.h>

#include <cmath>
#include <exception>
#include <functional>
#include <span>

#include "kernels/base/registry.hpp"
#include "models/data/readers.hpp"
#include "models/data/text_set.hpp"
#include "models/files/file.hpp"

namespace grapevine {
namespace {

constexpr size_t kHoldOut = 10;  // without a test file: every tenth sample is for the test
constexpr int kMostClasses = 1 << 16;

/// One entry of the registry: a name, the possible folders of its files, and the function that
/// reads them.
struct Source {
  std::string name;
  std::vector<std::string> folders;  // names of its own folder inside the given one
  std::string packaged;              // the folder of a Debian package; empty: there is no package
  std::string advice;                // how to get it
  std::vector<std::string> files;    // needed; plain, .gz or .xz
  int classes;
  bool mirrors;
  int crop_padding;
  std::function<Result<DataSet>(const Source&, const std::string& folder)> read;
};

Error missing(const Source& source, const std::string& file, const std::string& where) {
  return user_error(fmt::format("data set {}: no {} (plain, .gz or .xz) in {}; {}", source.name,
                                file, where, source.advice));
}

Result<DataSet> both(Result<Samples> train, Result<Samples> test) {
  if (!train) return train.error();
  if (!test) return test.error();
  DataSet data;
  data.train = std::move(*train);
  data.test = std::move(*test);
  return data;
}

Result<DataSet> read_idx_pair(const Source& source, const std::string& folder) {
  const auto part = [&](size_t first) {
    return read_idx(find_packed(folder, source.files[first]),
                    find_packed(folder, source.files[first + 1]), source.classes);
  };
  return both(part(0), part(2));
}

Result<DataSet> read_cifar10_batches(const Source& source, const std::string& folder) {
  std::vector<std::string> batches;
  for (int k = 1; k <= 5; ++k) {
    const std::string path = find_packed(folder, fmt::format("data_batch_{}.bin", k));
    if (!path.empty()) batches.push_back(path);
  }
  if (batches.empty()) return missing(source, "data_batch_1.bin to data_batch_5.bin", folder);
  return both(read_cifar10(batches), read_cifar10({find_packed(folder, source.files[0])}));
}

Result<DataSet> read_optdigits_pair(const Source& source, const std::string& folder) {
  return both(read_optdigits(find_packed(folder, source.files[0])),
              read_optdigits(find_packed(folder, source.files[1])));
}

void append(const Samples& from, size_t sample, Samples& to) {
  const size_t width = from.shape.size();
  to.labels.push_back(from.labels[sample]);
  to.features.insert(to.features.end(), from.features.begin() + sample * width,
                     from.features.begin() + (sample + 1) * width);
}

Result<DataSet> read_libsvm_set(const Source& source, const std::string& folder, int features) {
  Result<Samples> all = read_libsvm(find_packed(folder, source.files[0]), features);
  if (!all) return all.error();
  const std::string test_path = find_packed(folder, source.files[0] + ".t");
  if (!test_path.empty()) return both(std::move(all), read_libsvm(test_path, features));
  DataSet data;
  data.train.shape = data.test.shape = all->shape;
  for (size_t i = 0; i < all->count(); ++i) {
    append(*all, i, i % kHoldOut == kHoldOut - 1 ? data.test : data.train);
  }
  return data;
}

std::vector<Source> sources() {
  const std::vector<std::string> idx = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  const auto libsvm = [](int features) {
    return [features](const Source& source, const std::string& folder) {
      return read_libsvm_set(source, folder, features);
    };
  };
  const std::string name_it = "name the folder that has it with --data";
  const std::string from_libsvm = "fetch it from the LIBSVM collection and " + name_it;
  return {
      {"fashion-mnist",
       {"fashion-mnist"},
       "/usr/share/datasets/fashion-mnist",
       "install the Debian package dataset-fashion-mnist or " + name_it,
       idx,
       10,
       true,
       0,
       read_idx_pair},
      {"mnist", {"mnist"}, "", name_it, idx, 10, false, 0, read_idx_pair},
      {"cifar10",
       {"cifar10", "cifar-10-batches-bin"},
       "",
       "fetch the binary version of CIFAR-10 and " + name_it,
       {"test_batch.bin"},
       10,
       true,
       4,
       read_cifar10_batches},
      {"optdigits",
       {"optdigits", "digits"},
       "",
       "fetch optdigits from UCI and " + name_it,
       {"optdigits.tra", "optdigits.tes"},
       10,
       false,
       0,
       read_optdigits_pair},
      {"a9a", {"libsvm", "a9a"}, "", from_libsvm, {"a9a"}, 2, false, 0, libsvm(123)},
      {"w8a", {"libsvm", "w8a"}, "", from_libsvm, {"w8a"}, 2, false, 0, libsvm(300)},
  };
}

/// The folder that has all the needed files: the given one, or the set's own inside it.
Result<std::string> find_folder(const Source& source, const std::string& given) {
  const std::string& root = given.empty() ? source.packaged : given;
  if (root.empty()) {
    return user_error(
        fmt::format("data set {}: no package installs it; {}", source.name, source.advice));
  }
  std::vector<std::string> candidates = {root};
  for (const std::string& own : source.folders)
    candidates.push_back(fmt::format("{}/{}", root, own));
  std::string first_missing;
  for (const std::string& folder : candidates) {
    bool complete = true, any = false;
    std::string lacks;
    for (const std::string& file : source.files) {
      const bool here = !find_packed(folder, file).empty();
      any = any || here;
      if (!here && complete) lacks = file;
      complete = complete && here;
    }
    if (complete) return folder;
    if (any) return missing(source, lacks, folder);  // some files are here, so this is the folder
  }
  return missing(source, source.files[0], fmt::format("{} or {}", root, candidates[1]));
}

/// Sums of bytes are exact, so the numbers are the same on every machine.
void measure_pixels(DataSet& data) {
  const SampleShape& shape = data.train.shape;
  const size_t plane = static_cast<size_t>(shape.height) * shape.width;
  for (int channel = 0; channel < shape.channels; ++channel) {
    uint64_t sum = 0, squares = 0;
    for (size_t i = 0; i < data.train.count(); ++i) {
      const uint8_t* at = data.train.pixels.data() + i * shape.size() + channel * plane;
      for (const uint64_t pixel : std::span(at, plane)) {
        sum += pixel;
        squares += pixel * pixel;
      }
    }
    const double count = static_cast<double>(data.train.count() * plane);
    const double mean = static_cast<double>(sum) / count;
    const double variance = static_cast<double>(squares) / count - mean * mean;
    data.mean.push_back(static_cast<float>(mean));
    data.deviation.push_back(variance > 0 ? static_cast<float>(std::sqrt(variance)) : 1.0f);
  }
}

struct OwnSource {
  std::string name;
  std::function<Result<DataSet>(const std::string& folder)> read;
};

Registry<OwnSource>& registered() {
  static Registry<OwnSource> all;
  return all;
}

/// The error in the samples; empty: there is none.
std::string complaint_of(const Samples& samples, int classes) {
  const SampleShape& s = samples.shape;
  if (samples.count() == 0) return "there are none";
  if (s.channels < 1 || s.height < 1 || s.width < 1) return "a side of their shape is below 1";
  const size_t numbers = s.image ? samples.pixels.size() : samples.features.size();
  if (numbers != samples.count() * s.size())
    return fmt::format("{} labels and {} numbers of {} a sample", with_commas(samples.count()),
                       with_commas(numbers), with_commas(s.size()));
  for (const uint16_t label : samples.labels)
    if (label >= classes) return fmt::format("label {} of {} classes", label, classes);
  return "";
}

Result<DataSet> read_own(const OwnSource& source, const std::string& folder) {
  const auto wrong = [&](const std::string& why) {
    return world_error(fmt::format("data set {}: {}", source.name, why));
  };
  try {
    Result<DataSet> data = source.read(folder);
    if (!data) return data.error();
    data->name = source.name;
    if (data->classes < 2 || data->classes > kMostClasses)
      return wrong(fmt::format("its classes are not 2 to {}", with_commas(kMostClasses)));
    std::string why = complaint_of(data->train, data->classes);
    if (!why.empty()) return wrong("its training samples: " + why);
    why = complaint_of(data->test, data->classes);
    if (!why.empty()) return wrong("its test samples: " + why);
    if (data->train.shape != data->test.shape)
      return wrong("its training and test samples differ in shape");
    if (!data->train.shape.image) return data;
    const auto channels = static_cast<size_t>(data->train.shape.channels);
    if (data->mean.empty() && data->deviation.empty()) measure_pixels(*data);
    if (data->mean.size() != channels || data->deviation.size() != channels)
      return wrong("its mean and deviation are not one number a channel");
    return data;
  } catch (const std::exception& e) {
    return wrong(e.what());
  }
}

}  // namespace

std::string DataSet::description() const {
  const SampleShape& s = train.shape;
  const std::string what = s.image ? fmt::format(" images {}x{}x{}", s.height, s.width, s.channels)
                                   : fmt::format(" rows of {} features", s.channels);
  return fmt::format("{}: {} + {}{}, {} classes", name, with_commas(train.count()),
                     with_commas(test.count()), what, classes);
}

std::string data_set_names() {
  std::string names;
  for (const Source& source : sources())
    names += (names.empty() ? "" : ", ") + source.name;
  registered().for_each([&names](const OwnSource& source) { names += ", " + source.name; });
  return names;
}

Status register_data_set(const std::string& name,
                         std::function<Result<DataSet>(const std::string& folder)> read) {
  if (!read) return user_error("a data set without read cannot be registered");
  bool taken = is_text(name);
  for (const Source& source : sources())
    taken = taken || source.name == name;
  return registered().add("data set", {name, std::move(read)}, taken);
}

Result<DataSet> read_data_set(const std::string& name, const std::string& folder) {
  if (const OwnSource* own = registered().find(name)) return read_own(*own, folder);
  for (const Source& source : sources()) {
    if (source.name != name) continue;
    const Result<std::string> found = find_folder(source, folder);
    if (!found) return found.error();
    Result<DataSet> data = source.read(source, *found);
    if (!data) return data.error();
    if (data->train.shape != data->test.shape) {
      return world_error(fmt::format(
          "data set {} in {}: its training and test samples differ in shape", name, *found));
    }
    data->name = name;
    data->classes = source.classes;
    data->mirrors = source.mirrors;
    data->crop_padding = source.crop_padding;
    if (data->train.shape.image) measure_pixels(*data);
    return data;
  }
  return user_error(fmt::format(
      "data set is \"{}\", accepted: {}, text:FILE, or a file called .csv, .tsv (also .gz, .xz), "
      ".npz or .safetensors",
      name, data_set_names()));
}

}  // namespace grapevine
