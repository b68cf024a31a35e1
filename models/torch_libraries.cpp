#include "models/torch_libraries.hpp"

#include <fmt/core.h>

#include <dlfcn.h>

#include <fstream>

#include "kernels/gpu/cuda_device.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCpuLibrary = "libtorch_cpu.so";

fs::path library(const fs::path& folder, const char* name) { return folder / "torch/lib" / name; }

bool is_there(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

/// "2.11" for "2.11.0+cu130".
std::string release_of(const std::string& version) {
  const size_t dot = version.find('.');
  return dot == version.npos ? version
                             : version.substr(0, version.find_first_not_of("0123456789", dot + 1));
}

/// The version in PyTorch's own file; empty: no file, as in a LibTorch without Python.
std::string version_in(const fs::path& folder) {
  std::ifstream file(folder / "torch/version.py");
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_of("'\"");
    if (line.starts_with("__version__") && begin != line.npos)
      return line.substr(begin + 1, line.find_first_of("'\"", begin + 1) - begin - 1);
  }
  return {};
}

/// Never closed, like the module.
Status open_library(const fs::path& path) {
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return Done{};
  const char* why = dlerror();
  return world_error(fmt::format("cannot load PyTorch: {}", why ? why : path.string()));
}

}  // namespace

Result<std::string> open_torch(const std::string& asked, const fs::path& program_folder,
                               const std::string& version) {
  if (dlopen(kCpuLibrary, RTLD_NOW | RTLD_NOLOAD) != nullptr) return std::string();
  const bool named = !asked.empty() && asked != "none";
  const fs::path folder = named ? fs::path(asked) : (program_folder / "../..").lexically_normal();
  if (!is_there(library(folder, kCpuLibrary))) {
    if (!named) return std::string();
    return world_error(fmt::format("GRAPEVINE_LIBTORCH is {}, where there is no torch/lib/{}",
                                   asked, kCpuLibrary));
  }
  const std::string found = version_in(folder);
  if (!found.empty() && release_of(found) != release_of(version))
    return world_error(fmt::format("networks need PyTorch {}, the one in {} is {}",
                                   release_of(version), folder.string(), found));
  if (Status opened = open_library(library(folder, kCpuLibrary)); !opened) return opened.error();
  // A PyTorch without CUDA lacks these two. The second one takes seconds to open and only a GPU
  // needs it.
  for (const char* name : {"libc10_cuda.so", "libtorch_cuda.so"}) {
    const bool wanted = name == std::string("libc10_cuda.so") || cuda_device_count() > 0;
    if (!wanted || !is_there(library(folder, name))) continue;
    if (Status opened = open_library(library(folder, name)); !opened) return opened.error();
  }
  return folder.string();
}

}  // namespace grapevine
