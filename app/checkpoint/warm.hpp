// --init: a run that begins where another one's model is.
#pragma once
#include <memory>

#include "app/options.hpp"

namespace grapevine {

/// The objective, begun at what --init names: a safetensors file, a state dict of torch.save, a
/// run's folder (its model, or, where it has none yet, the mean of its newest checkpoint), or a
/// checkpoint (the mean of its ranks). Without --init as it was. Says on standard error, a line
/// each, which tensors do not fit and which are not used. Errors (user): there is no such thing, or
/// some do not fit.
Result<std::shared_ptr<Objective>> begun_as_told(const Options&, std::shared_ptr<Objective>);

}  // namespace grapevine
