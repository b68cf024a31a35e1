#include "models/files/zip.hpp"

#include <fmt/core.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>

namespace grapevine {
namespace {

constexpr uint64_t kTimesAtMost = 1040;  // the largest compression ratio of deflate
constexpr zip_int64_t kMostEntries = 1 << 20;

Error damaged() { return world_error("is cut or damaged, or no zip archive"); }

struct CloseRecord {
  void operator()(zip_file_t* record) const { zip_fclose(record); }
};
using Record = std::unique_ptr<zip_file_t, CloseRecord>;

/// Moves to byte `first`; unpacks up to there if needed.
bool skip(zip_file_t* record, bool is_stored, uint64_t first) {
  if (first == 0) return true;
  if (is_stored) return zip_fseek(record, static_cast<zip_int64_t>(first), SEEK_SET) == 0;
  Bytes passed(size_t{1} << 20);
  while (first > 0) {
    const zip_int64_t got =
        zip_fread(record, passed.data(), std::min<uint64_t>(first, passed.size()));
    if (got <= 0) return false;
    first -= static_cast<uint64_t>(got);
  }
  return true;
}

}  // namespace

void Zip::Close::operator()(zip* archive) const { zip_discard(archive); }

Result<Zip> Zip::open(const InputFile& file) {
  Zip opened;
  int why = 0;
  const int own = ::dup(file.fd());
  opened.archive_.reset(zip_fdopen(own, 0, &why));
  if (!opened.archive_) {
    ::close(own);
    return damaged();
  }
  const zip_int64_t count = zip_get_num_entries(opened.archive_.get(), 0);
  if (count > kMostEntries)
    return world_error(fmt::format("has {} records, accepted: at most {}", count, kMostEntries));
  for (zip_int64_t k = 0; k < count; ++k) {
    zip_stat_t about;
    const auto index = static_cast<zip_uint64_t>(k);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if (zip_stat_index(opened.archive_.get(), index, ZIP_FL_ENC_RAW, &about) != 0 ||
        (about.valid & kNeeded) != kNeeded || about.comp_size > file.size() ||
        about.size / kTimesAtMost > about.comp_size)
      return damaged();
    opened.entries_.push_back({about.name, index, about.size});
  }
  return opened;
}

const ZipEntry* Zip::find(const std::string& name) const {
  for (const ZipEntry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

Result<Bytes> Zip::read(const ZipEntry& entry, uint64_t first, uint64_t count) const {
  zip_stat_t about;
  if (zip_stat_index(archive_.get(), entry.index, 0, &about) != 0) return damaged();
  if (about.encryption_method != ZIP_EM_NONE)
    return world_error("is encrypted, accepted: records that are stored or deflated");
  if (!zip_compression_method_supported(about.comp_method, 0))
    return world_error(fmt::format(
        "is packed by method {} of zip, accepted: records that are stored or deflated",
        about.comp_method));
  const Record record(zip_fopen_index(archive_.get(), entry.index, 0));
  if (!record || first > entry.size || count > entry.size - first)
    return damaged();
  if (Status fits = fits_in_memory(count); !fits) return fits.error();
  Bytes bytes(count);
  if (!skip(record.get(), about.comp_method == ZIP_CM_STORE, first)) return damaged();
  for (uint64_t done = 0; done < count;) {
    const zip_int64_t got = zip_fread(record.get(), bytes.data() + done, count - done);
    if (got <= 0) return damaged();
    done += static_cast<uint64_t>(got);
  }
  // libzip verifies the checksum at the end of a whole record.
  uint8_t more = 0;
  if (first == 0 && count == entry.size && zip_fread(record.get(), &more, 1) != 0) return damaged();
  return bytes;
}

}  // namespace grapevine
