// DataSet: the samples for training and testing a network, in memory, as published.
//
// Pixels stay bytes (Fashion-MNIST: 55 MB instead of 220). They are normalised when a batch is
// gathered, with the mean and deviation of the training pixels per channel. Sparse sets become
// dense fp32 rows, not normalised.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

struct SampleShape {
  int channels = 0;  // of an image; or the number of features
  int height = 1;
  int width = 1;
  bool image = false;

  size_t size() const { return static_cast<size_t>(channels) * height * width; }
  bool operator==(const SampleShape&) const = default;
};

struct Samples {
  SampleShape shape;
  std::vector<uint8_t> pixels;   // images: sample x channel x row x column
  std::vector<float> features;   // otherwise: sample x feature
  std::vector<uint16_t> labels;  // one per sample, below DataSet::classes

  size_t count() const { return labels.size(); }
};

struct DataSet {
  std::string name;
  Samples train, test;
  int classes = 0;
  std::vector<float> mean, deviation;  // per channel, in units of the stored bytes; images only
  // A mirrored image keeps its meaning (clothes: yes, digits: no).
  bool mirrors = false;
  int crop_padding = 0;  // train on random crops after padding by this many pixels

  std::string description() const;
};

/// After this call read_data_set() accepts `name`; `read` gets the folder as given. The result of
/// `read` is checked (sizes, labels, shapes). An image set without mean and deviation gets measured
/// ones. Errors (user): the name is taken or invalid, or there is no `read`.
Status register_data_set(const std::string& name,
                         std::function<Result<DataSet>(const std::string& folder)> read);

/// The names that read_data_set() accepts, separated by ", ".
std::string data_set_names();

/// Reads a set by its name from `folder`. If `folder` has none of its files, reads the set's own
/// folder inside it (fashion-mnist, mnist, cifar10, digits, libsvm). Empty: the folder of the
/// distribution's package. Every file may be plain, .gz or .xz. Errors: an unknown name or missing
/// files (user: which file, where it was sought, how to get it); a file that is cut, damaged or of
/// another kind (world: the file, and the line or the bytes).
Result<DataSet> read_data_set(const std::string& name, const std::string& folder);

}  // namespace grapevine
