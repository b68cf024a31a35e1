// One reader per file format. Each takes the paths of existing files and checks everything that it
// reads.
//
// Errors are of the world and name the file: cut (bytes expected and found), of another kind (its
// magic number), a label out of range (and its number), a bad line (its number, what was found,
// what is accepted). A damaged file never gives samples that violate Samples' promises: labels are
// below the number of classes, sizes agree.
#pragma once
#include <string>
#include <vector>

#include "models/data/data_set.hpp"

namespace grapevine {

/// IDX, the format of MNIST: big-endian magic 2051, count, rows, columns, a byte per pixel; magic
/// 2049, count, labels.
Result<Samples> read_idx(const std::string& images_path, const std::string& labels_path,
                         int classes);

/// The binary form of CIFAR-10: records of a label byte and 3,072 pixels (red, green, blue planes),
/// file after file.
Result<Samples> read_cifar10(const std::vector<std::string>& paths,
                             size_t records_per_file = 10000);

/// "optdigits" of UCI: 64 numbers 0..16 (8 x 8) and the class 0..9 a line, separated by commas.
Result<Samples> read_optdigits(const std::string& path);

/// LIBSVM text, `label index:value ...`, labels +1 (class 1) and -1 (class 0), indices from 1,
/// rising, up to `features`.
Result<Samples> read_libsvm(const std::string& path, int features);

}  // namespace grapevine
