// Reads what torch.save writes for a dict of tensors (a state dict), without LibTorch and without
// running anything: of a pickle's opcodes those that such a dict consists of, and of what a pickle
// may name only what makes tensors.
//
// Protocols 2 to 5; storages of float, double, long, half and bfloat16, of which the last two
// become F32; tensors that are views or transposed become contiguous. A dict that has its state
// dict under "state_dict", "model_state_dict" or "model" is taken for that.
#pragma once
#include <string>
#include <vector>

#include "models/files/model_file.hpp"

namespace grapevine {

/// In the order of the dict. Errors (world): the file is missing, cut or damaged, or holds
/// something else, and what.
Result<std::vector<StoredTensor>> read_state_dict(const std::string& path);

/// Whether a file begins as those of torch.save do (a zip).
bool is_state_dict(const std::string& path);

}  // namespace grapevine
