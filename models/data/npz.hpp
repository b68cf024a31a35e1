// NumPy's .npz: a zip of .npy files, stored or deflated (numpy.savez, numpy.savez_compressed).
#pragma once
#include <string>
#include <vector>

#include "models/files/model_file.hpp"

namespace grapevine {

/// In the order of the file, named without ".npy". Numbers become F32 (floats of 4 bytes), F64 (of
/// 8) or I64 (whole numbers and booleans). Errors (world): it is missing, cut or damaged, an array
/// in Fortran's order or the other byte order, or of objects or text: the file, the array and what
/// is accepted. No announced size is believed before the bytes are there.
Result<std::vector<StoredTensor>> read_npz(const std::string& path);

}  // namespace grapevine
