// OwnData: samples from a file of the user's own.
//
//   FILE.safetensors, FILE.npz   tensors called train_inputs, train_targets, test_inputs and
//                                test_targets (or x_train, y_train, ..., or what other programs
//                                call them: images, data, labels), the first dimension counting
//                                samples. With inputs and targets alone every tenth is for the
//                                test.
//   FILE.csv                     a table (table.hpp); every tenth row is for the test.
#pragma once
#include <string>

#include "models/files/model_file.hpp"

namespace grapevine {

struct OwnData {
  std::string name;                        // the file's
  StoredTensor train_inputs, test_inputs;  // F32, at least two dimensions, alike but for the first
  StoredTensor train_targets, test_targets;  // I64, one a sample; or F32

  bool has_classes() const { return train_targets.type == TensorType::i64; }
  int classes = 0;      // one more than the largest target, where targets are classes
  int outputs = 0;      // else: numbers a sample
  std::string read_as;  // what the target, the inputs and the task are, and what chose them
  std::string description() const;
};

/// Whether the name is that of such a file.
bool is_own_data(const std::string& dataset);

/// `loss`: mse takes targets as numbers, cross_entropy as classes. auto takes them as classes where
/// they are one whole number a sample, 0 or more, and either all below 256 or no more than can be
/// learnt: three in four of the numbers up to the largest occur, and there are two samples for
/// each. -1 and 1 alone are two classes; so are names. Errors (user): it is not there, cut or
/// damaged, lacks a tensor, or holds what cannot be trained on (no samples, shapes that do not fit,
/// targets that are no classes where the loss wants them, numbers that are not finite): one line
/// that names the file, the tensor or the line, and what is accepted.
Result<OwnData> read_own_data(const std::string& path, const std::string& loss = "auto");

}  // namespace grapevine
