// Which PyTorch the network module is loaded against, told by what lies in folders. That one loads
// is shown by the wheel's test.
#include "models/torch_libraries.hpp"

#include <filesystem>

#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {
namespace {

/// A folder as pip leaves it, with a library that is none.
void put_torch(const test::Scratch& scratch, const std::string& folder,
               const std::string& version) {
  std::filesystem::create_directories(scratch.path(folder + "/torch/lib"));
  scratch.file(folder + "/torch/lib/libtorch_cpu.so", std::string("no library"));
  if (version.empty()) return;
  scratch.file(folder + "/torch/version.py",
               "from typing import Optional\n__all__ = ['__version__']\n__version__ = '" + version +
                   "'\ndebug = False\n");
}

std::string why_not(const std::string& asked, const std::string& program_folder) {
  const auto opened = open_torch(asked, program_folder, "2.11.0");
  REQUIRE_FALSE(opened);
  return opened.error().message;
}

}  // namespace

TEST_CASE("Without a PyTorch beside the program none is opened, and that is no error") {
  const test::Scratch scratch;
  for (const std::string asked : {"", "none"}) {
    const auto opened = open_torch(asked, scratch.path("site/grapevine/bin"), "2.11.0");
    REQUIRE(opened);
    CHECK(opened->empty());
  }
}

TEST_CASE("A PyTorch that was asked for and is not there is named") {
  const test::Scratch scratch;
  CHECK(why_not(scratch.path("gone"), "/") == "GRAPEVINE_LIBTORCH is " + scratch.path("gone") +
                                                  ", where there is no torch/lib/libtorch_cpu.so");
}

TEST_CASE("A PyTorch of another release is refused before anything of it is loaded") {
  const test::Scratch scratch;
  put_torch(scratch, "site", "2.10.1+cu128");
  const std::string site = scratch.path("site");
  const std::string wanted = "networks need PyTorch 2.11, the one in " + site + " is 2.10.1+cu128";
  CHECK(why_not(site, "/") == wanted);
  CHECK_THAT(why_not("", site + "/grapevine/bin"), Catch::StartsWith("networks need PyTorch 2.11"));
}

TEST_CASE("A PyTorch of the same release, or a LibTorch that names none, is opened") {
  const test::Scratch scratch;
  for (const std::string version : {"2.11.3", "2.11.0+cpu", "2.11", ""}) {
    const std::string folder = "site" + version;
    put_torch(scratch, folder, version);
    CHECK_THAT(why_not(scratch.path(folder), "/"),
               Catch::StartsWith("cannot load PyTorch: ") && Catch::Contains("file too short"));
  }
}

}  // namespace grapevine
