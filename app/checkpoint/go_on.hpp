// Derives from a checkpoint how a run resumes: the start of its ranks, its data and its graph, and
// the messages for the user. Knows neither options nor folders of runs.
#pragma once
#include <string>
#include <vector>

#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/settings.hpp"
#include "app/checkpoint/checkpoint_reader.hpp"

namespace grapevine {

struct GoingOn {
  Resumption resumption;
  std::vector<KeptBlob> kept;     // by place; the objects that scripts have stored
  std::vector<DataCut> cuts;      // of the data; the objective has them too
  std::string topology;           // the run's last one, or that of the settings
  int first_rank = -1;            // the first rank here before; -1: any
  std::vector<std::string> told;  // a line each
};

/// settings.ranks may differ from the record. `first_rank`: of the ranks here; -1: as before.
/// Errors (user): a checkpoint of another job, an incomplete one, or one of a run without gradients
/// left to take.
Result<GoingOn> go_on(const Checkpoint&, const Settings&, int first_rank, Objective&);

/// The identity in the checkpoints of such a run. `options`: a JSON object; `node`: this process's
/// name in a run of several.
RunIdentity identity_of(const Settings&, const Objective&, const std::string& options,
                        const std::string& node = "");

/// The run's folder, if `path` is one or a checkpoint in it; else empty.
std::string run_of(const std::string& path);

/// The folder of a node of a launch; the number of such folders, counted from the first.
std::string folder_of_node(const std::string& folder, int node);
int nodes_in(const std::string& folder);

/// Adds a line with the edges on which one end recorded one exchange more, if there are any. Adds
/// another line with the edges for which this is unknown, because the other end's record is
/// missing.
void tell_drift(const std::vector<RankFile>&, std::vector<std::string>& told);

/// The error: resume is "PATH", `why`.
Error refused(const Checkpoint&, const std::string& why);

}  // namespace grapevine
