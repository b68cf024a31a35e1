// One reader per file format. Each takes the paths of existing files and checks everything that it
// reads.
//
// Errors (world) name the file: it is cut (bytes expected and found), of another kind (its magic
// number), a label is out of range (its number), a line is bad (its number, what was found, what is
// accepted). The samples always keep Samples' invariants, even if the file is damaged: labels are
// below the number of classes, sizes agree.
#pragma once
#include <string>
#include <vector>

#include "models/data/data_set.hpp"

namespace grapevine {

/// IDX, the format of MNIST. Images: big-endian magic 2051, count, rows, columns, one byte per
/// pixel. Labels: magic 2049, count, labels.
Result<Samples> read_idx(const std::string& images_path, const std::string& labels_path,
                         int classes);

/// The binary form of CIFAR-10, file after file: each record is a label byte and 3,072 pixels (red,
/// green, blue planes).
Result<Samples> read_cifar10(const std::vector<std::string>& paths,
                             size_t records_per_file = 10000);

/// "optdigits" of UCI: each line has 64 numbers 0..16 (8 x 8) and the class 0..9, separated by
/// commas.
Result<Samples> read_optdigits(const std::string& path);

/// LIBSVM text: `label index:value ...`, label +1 (class 1) or -1 (class 0), ascending indices from
/// 1 to `features`.
Result<Samples> read_libsvm(const std::string& path, int features);

}  // namespace grapevine
