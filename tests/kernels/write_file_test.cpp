// Files that appear whole or not at all.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/base/write_file.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/grapevine_files_XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Status write(const std::string& path, const std::string& text, FileSettings settings = {}) {
  return write_whole_file(path, {{text.data(), text.size()}}, settings);
}

}  // namespace

TEST_CASE("a file is written whole under its name, replaces an older one, and nothing else stays") {
  const Folder folder;
  REQUIRE(write(folder / "a", "one"));
  REQUIRE(write(folder / "a", "two", {true, 0600}));
  CHECK(text_of(folder / "a") == "two");
  CHECK(folder.entries() == 1);
  struct stat about {};
  REQUIRE(::stat((folder / "a").c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

TEST_CASE("a file that is not to be replaced is kept, and that is the user's mistake") {
  const Folder folder;
  REQUIRE(write(folder / "a", "one", {false}));
  const Status again = write(folder / "a", "two", {false});
  REQUIRE_FALSE(again);
  CHECK(again.error().kind == Error::Kind::user);
  CHECK(text_of(folder / "a") == "one");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a link that lies where the file goes is replaced, and not followed") {
  const Folder folder;
  REQUIRE(write(folder / "victim", "untouched"));
  fs::create_symlink(folder / "victim", folder / "a");
  fs::create_symlink(folder / "victim", folder / "a.part");  // the name of old
  REQUIRE(write(folder / "a", "mine"));
  CHECK(text_of(folder / "victim") == "untouched");
  CHECK(text_of(folder / "a") == "mine");
  CHECK(fs::is_symlink(folder / "a.part"));
}

TEST_CASE("a device, a pipe or a socket is never replaced by a file, nor what leads to one") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink(folder / "pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    const Status written = write(folder / name, "text");
    REQUIRE_FALSE(written);
    CHECK(written.error().kind == Error::Kind::user);
    CHECK(written.error().message.find("it is no file") != std::string::npos);
    CHECK_FALSE(fs::is_regular_file(fs::symlink_status(folder / name)));
  }
  CHECK(folder.entries() == 2);
}

TEST_CASE("a folder that is not there is told, and leaves nothing") {
  const Folder folder;
  const Status none = write(folder / "none/a", "text");
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == Error::Kind::world);
  CHECK_THAT(none.error().message, Catch::Contains("none/a") && Catch::Contains("No such file"));
  CHECK(folder.entries() == 0);
}
