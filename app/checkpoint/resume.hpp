// What a run goes on from: --resume, or the same command again in a folder whose run was killed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "actors/settings/checkpoint_orders.hpp"
#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/options/config_file.hpp"
#include "app/options/options.hpp"
#include "app/system/folder_lock.hpp"

namespace grapevine {

/// Who made a run fail, as its run.json has it, where it was refused before it began.
inline constexpr char kStartRefused[] = "start";

/// With --resume among the entries: those of the run's record, then what is given beside them;
/// --ranks may be another number, and --topology another graph then. Of several processes the
/// record is that of a node, the first of launch; --ranks is given anew.
/// Errors (user): there is no checkpoint, or a given option contradicts the record.
Result<std::vector<ConfigEntry>> with_record(Command, const std::vector<ConfigEntry>& given);

/// What a checkpoint of this run says it is of. `node`: this process's name in a run of several.
RunIdentity identity_of(const Options&, const Objective&, const std::string& node = "");

struct Beginning {
  std::optional<FolderLock> lock;  // of --out, where an earlier life of the run goes on there
  Resumption resumption;           // empty: begins at the start
  std::vector<KeptBlob> kept;      // by place; what scripts have left with the ranks
  std::vector<DataCut> cuts;       // of the data, which the objective has heard of
  std::vector<std::string> told;   // what the user should know, a line each
};

/// Sets --out where --resume implies it, and the graph that the run had. Errors (user): nothing to
/// go on from and why, a checkpoint of something else, a run that has finished, options that are
/// not those of the run in --out, or another process that has that run.
Result<Beginning> beginning_of(Options&, Objective&);

/// The folder among those of an earlier launch's nodes that a node of this launch goes on from: its
/// own, or, where there are more nodes now, another's. On other machines each has its own.
std::string resumed_by_node(const Options& launch, int node);

/// What can be said of the nodes of the earlier launch that a launch goes on with, a line each: who
/// is left out and by how much that moves the mean, who is new, and of which edges one end had an
/// exchange more. Of other machines only what is in folders that this one sees.
std::vector<std::string> told_of_nodes(const Options& launch);

}  // namespace grapevine
