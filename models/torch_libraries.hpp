// Which PyTorch the network module runs on: its libraries are opened before the module, which then
// finds them by their names, wherever they lie.
#pragma once
#include <filesystem>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// Opens the libraries of the PyTorch in the folder `asked` (which holds torch/lib; empty or
/// "none": not asked for), else of the one installed beside a program in `program_folder`, as a
/// wheel has it, and returns the folder that holds it. Empty: there is none, or the process has one
/// already. Errors (world): no PyTorch where it was asked for, one of another release than
/// `version`, or one whose libraries cannot be opened.
Result<std::string> open_torch(const std::string& asked,
                               const std::filesystem::path& program_folder,
                               const std::string& version);

}  // namespace grapevine
