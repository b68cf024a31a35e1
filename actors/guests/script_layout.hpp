// The layout of a script, for its node: the objective of the run that the script begins, the
// tensors in its shared memory that are not trained (its aside tensors), and whether another script
// fits the run.
#pragma once
#include <memory>
#include <string>

#include "kernels/memory/vec.hpp"
#include "messages/guest.hpp"
#include "models/guest.hpp"

namespace grapevine {

/// The number of parameters and tensors, as text.
std::string counted(const GuestLayout&);

/// The difference of `theirs` from the layout of the run, as text; empty: they are equal.
std::string difference(const GuestLayout& ours, const GuestLayout& theirs);

/// The aside tensors are one vector, in the widest of their types.
DType aside_type(const GuestLayout&);

/// The objective of a run that begins at `start`, with `aside`.
std::shared_ptr<GuestObjective> objective_of(const GuestLayout&, Buffer start, Buffer aside);

/// The aside tensors in `memory`, which has this layout, in the type of the objective's statistics.
/// REQUIRES: `memory` has layout.bytes().
Buffer read_aside(const GuestLayout&, const void* memory);
void write_aside(const GuestLayout&, ConstVec values, void* memory);

}  // namespace grapevine
