// grapevine compare: methods x seeds x partitions from one file.
#include "app/commands.hpp"

namespace grapevine {

Result<int> compare(const Options& options) {
  return user_error("job is \"" + options.job + "\", accepted: a job file");
}

}  // namespace grapevine
