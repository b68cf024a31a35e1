// Shared by the tests of models/: a scratch folder, packed files, small and real data sets.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/data/data_set.hpp"
#include "models/files/file.hpp"

namespace grapevine::test {

/// A fresh folder that is removed at the end of the scope.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;

  std::string path(const std::string& name = "") const;
  /// Writes the file and returns its path.
  std::string file(const std::string& name, const Bytes& content) const;
  std::string file(const std::string& name, const std::string& content) const;

 private:
  std::string folder_;
};

Bytes gzipped(const Bytes&);
Bytes xzipped(const Bytes&);
Bytes read_raw(const std::string& path);

/// IDX bytes of `count` images of rows x columns, pixel k being k mod 251; and their labels.
Bytes idx_images(uint32_t count, uint32_t rows, uint32_t columns);
Bytes idx_labels(const std::vector<uint8_t>& labels);

/// A folder's worth of optdigits whose classes are easy to tell apart: `train` and `test` lines.
void write_optdigits(const Scratch&, int train, int test);

/// The folder with the real data sets: GRAPEVINE_TEST_DATA, or one beside the sources; "" with a
/// line on the terminal where there is none.
std::string real_data(const std::string& wanted_for);

}  // namespace grapevine::test
