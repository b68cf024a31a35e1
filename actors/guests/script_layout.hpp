// The layout of a script, for its node: the objective of the run that the script begins, the
// tensors in its shared memory that are not trained (its aside), and whether another script fits
// the run.
#pragma once
#include <memory>
#include <string>

#include "kernels/memory/vec.hpp"
#include "messages/guest.hpp"
#include "models/guest.hpp"

namespace grapevine {

/// How many parameters and tensors it has, as text.
std::string counted(const GuestLayout&);

/// How `theirs` differs from the layout of the run, as text; empty: it does not.
std::string difference(const GuestLayout& ours, const GuestLayout& theirs);

/// The aside tensors are one vector, in the widest type that is needed.
DType aside_type(const GuestLayout&);

/// The objective of a run that begins at `start`, with `aside`.
std::shared_ptr<GuestObjective> objective_of(const GuestLayout&, Buffer start, Buffer aside);

/// The aside tensors in `memory`, which the layout divides, in the type of the objective's
/// statistics. REQUIRES: it has layout.bytes().
Buffer read_aside(const GuestLayout&, const void* memory);
void write_aside(const GuestLayout&, ConstVec values, void* memory);

}  // namespace grapevine
