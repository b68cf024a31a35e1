// Derives from a checkpoint how a run resumes: the initial state of its ranks, its data and its
// graph, and the messages for its user. Knows neither options nor folders of runs.
#pragma once
#include <string>
#include <vector>

#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/settings.hpp"
#include "app/checkpoint/checkpoint_reader.hpp"

namespace grapevine {

struct GoingOn {
  Resumption resumption;
  std::vector<KeptBlob> kept;     // by place; what scripts have left with the ranks
  std::vector<DataCut> cuts;      // of the data, which the objective has heard of
  std::string topology;           // that the run had come to; or that of the settings
  int first_rank = -1;            // where the ranks here were; -1: anywhere
  std::vector<std::string> told;  // a line each
};

/// settings.ranks may be another number than the record's. `first_rank`: of the ranks here; -1:
/// where they were. Errors (user): a checkpoint of something else, one that lacks something, and
/// one of a run that has nothing left to do.
Result<GoingOn> go_on(const Checkpoint&, const Settings&, int first_rank, Objective&);

/// The identity that a checkpoint of such a run has. `options`: a JSON object; `node`: this
/// process's name in a run of several.
RunIdentity identity_of(const Settings&, const Objective&, const std::string& options,
                        const std::string& node = "");

/// The run's folder, if `path` is one or a checkpoint in it; otherwise empty.
std::string run_of(const std::string& path);

/// The folder of a node of a launch, and the number of such folders, from the first on.
std::string folder_of_node(const std::string& folder, int node);
int nodes_in(const std::string& folder);

/// Adds a line with the edges on which one end recorded one exchange more, if there are any, and a
/// line with the edges for which this is unknown because the record of the other end is not among
/// these.
void tell_drift(const std::vector<RankFile>&, std::vector<std::string>& told);

/// resume is "PATH", why
Error refused(const Checkpoint&, const std::string& why);

}  // namespace grapevine
