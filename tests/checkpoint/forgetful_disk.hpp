// ForgetfulDisk: a disk whose machine may stop at any moment. What was not synced then is there, is
// not there, or is there in part, each file and each name by itself.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/checkpoint/disk_effect.hpp"
#include "kernels/base/random.hpp"

namespace grapevine::test {

class ForgetfulDisk {
 public:
  ForgetfulDisk();  // has the folder "run"

  void happen(const DiskEffect&);
  /// The machine stops: of each name's and each file's changes since its last sync any part is
  /// kept.
  void stop(Random&);
  void flip_bit(const std::string& path, size_t bit);

  /// Of what is there now. REQUIRES: it outlives the view.
  DiskView view() const;

 private:
  static constexpr int kFolder = -1;
  struct File {
    std::string now, synced;
  };
  using Names = std::map<std::string, int>;                                // of files, or kFolder
  using Change = std::vector<std::pair<std::string, std::optional<int>>>;  // happens whole or not
  struct Folder {
    Names now, synced;
    std::vector<Change> since;
  };

  void change(const std::string& folder, Change);
  Folder& folder_of(const std::string& path);
  File& file_at(const std::string& path);

  std::map<std::string, Folder> folders_;  // by path
  std::vector<File> files_;
};

}  // namespace grapevine::test
