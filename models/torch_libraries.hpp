// The choice of PyTorch for the network module. These functions open its libraries before the
// module; the module then finds them by name, whatever their folder.
#pragma once
#include <filesystem>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// Opens the libraries of PyTorch and returns the folder that holds it. The folder is `asked` (it
/// holds torch/lib; empty or "none": not given), else the one beside a program in `program_folder`,
/// where a wheel installs it. Empty result: there is none, or the process has one already. Errors
/// (world): there is no PyTorch in the given folder, its release differs from `version`, or its
/// libraries cannot be opened.
Result<std::string> open_torch(const std::string& asked,
                               const std::filesystem::path& program_folder,
                               const std::string& version);

}  // namespace grapevine
