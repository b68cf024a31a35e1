// OwnData: samples from a file of the user's own.
//
//   FILE.safetensors, FILE.npz   tensors train_inputs, train_targets, test_inputs, test_targets (or
//                                x_train, y_train, x_test, y_test), the first dimension counting
//                                samples. With inputs and targets alone every tenth is for the
//                                test.
//   FILE.csv                     a table of numbers, its first line the names of the columns. The
//                                target is the column called target or label, else the last one;
//                                every tenth row is for the test.
#pragma once
#include <string>

#include "models/files/model_file.hpp"

namespace grapevine {

struct OwnData {
  std::string name;                        // the file's
  StoredTensor train_inputs, test_inputs;  // F32, at least two dimensions, alike but for the first
  StoredTensor train_targets, test_targets;  // I64, one a sample; or F32

  bool has_classes() const { return train_targets.type == TensorType::i64; }
  int classes = 0;  // one more than the largest target, where targets are classes
  int outputs = 0;  // else: numbers a sample
  std::string description() const;
};

/// Whether a data set is named that is such a file.
bool is_own_data(const std::string& dataset);

/// Errors (user): it is not there, cut or damaged, lacks a tensor, or holds what cannot be trained
/// on (no samples, shapes that do not fit, targets below 0, numbers that are not finite): one line
/// that names the file, the tensor or the line, and what is accepted.
Result<OwnData> read_own_data(const std::string& path);

}  // namespace grapevine
