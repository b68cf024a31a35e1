// OwnData: samples from the user's own file.
//
//   FILE.safetensors, FILE.npz   tensors called train_inputs, train_targets, test_inputs and
//                                test_targets; or x_train, y_train, ...; or other programs' names:
//                                images, data, labels. The first dimension counts samples. If
//                                there are only inputs and targets, every tenth sample is for
//                                the test.
//   FILE.csv                     a table (table.hpp); every tenth row is for the test.
#pragma once
#include <string>

#include "models/files/model_file.hpp"

namespace grapevine {

struct OwnData {
  std::string name;  // the file's name
  // F32, at least two dimensions, equal in all but the first.
  StoredTensor train_inputs, test_inputs;
  StoredTensor train_targets, test_targets;  // I64, one per sample; or F32

  bool has_classes() const { return train_targets.type == TensorType::i64; }
  int classes = 0;      // if targets are classes: the largest target + 1
  int outputs = 0;      // otherwise: numbers per sample
  std::string read_as;  // the target, the inputs and the task, and why they were chosen
  std::string description() const;  // of the samples, without their number
};

/// Whether this names such a file.
bool is_own_data(const std::string& dataset);

/// `loss`: mse takes targets as numbers, cross_entropy as classes. auto takes them as classes if
/// each sample has one whole number of at least 0, and either all are below 256, or the classes can
/// be learnt: three in four of the numbers up to the largest occur, and there are two samples for
/// each. Targets of only -1 and 1 are two classes, and names are classes. Whole numbers from below
/// 0 on are classes if their range has at most 16 numbers and they can be learnt in this sense.
/// Errors (user): the file is missing, cut or damaged, lacks a tensor, or cannot be trained on (no
/// samples, shapes that do not fit, targets that are no classes although the loss needs them,
/// numbers that are not finite). One line names the file, the tensor or the line, and what is
/// accepted.
Result<OwnData> read_own_data(const std::string& path, const std::string& loss = "auto");

}  // namespace grapevine
