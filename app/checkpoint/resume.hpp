// Finds the start of a resumed run: --resume, or the same command in a folder whose run was killed.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/settings/checkpoint_orders.hpp"
#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/options/config_file.hpp"
#include "app/options/options.hpp"
#include "app/system/folder_lock.hpp"

namespace grapevine {

/// The value in run.json if a run was refused before it began.
inline constexpr char kStartRefused[] = "start";

/// The run.json of a folder; null if there is none.
nlohmann::ordered_json record_in(const std::string& folder);

/// If `given` has --resume: the entries of the run's record, then the given ones. --ranks may be
/// another number; then --topology may be another graph. In a run of several processes the record
/// is that of a node (for launch, the first one). --nodes and --ranks are as before, unless they
/// are given. Errors (user): there is no checkpoint, or a given option contradicts the record.
Result<std::vector<ConfigEntry>> with_record(Command, const std::vector<ConfigEntry>& given);

/// The identity in the checkpoints of this run. `node`: this process's name in a run of several.
RunIdentity identity_of(const Options&, const Objective&, const std::string& node = "");

struct Beginning {
  std::optional<FolderLock> lock;  // of --out, if an earlier life of the run resumes there
  Resumption resumption;           // empty: starts from the initial point
  std::vector<KeptBlob> kept;      // by place; the objects that scripts have stored
  std::vector<DataCut> cuts;       // of the data; the objective has them too
  std::vector<std::string> told;   // messages for the user, a line each
};

/// Whether a run directory can be made or taken up, as far as that is known without the objective.
/// Makes nothing. Errors: as beginning_of and RunDirectory::make.
Status may_begin(const Options&);

/// Sets --out if --resume implies it, and the graph of the run. Errors (user): there is nothing to
/// resume from (with the reason); a checkpoint of another job; a finished run; options that differ
/// from those of the run in --out; another process that uses that run.
Result<Beginning> beginning_of(Options&, Objective&);

/// The folder of an earlier launch's node from which a node of this launch resumes: its own, or, if
/// there are more nodes now, another one's. On other machines each node has its own.
std::string resumed_by_node(const Options& launch, int node);

/// Lines about the nodes of the earlier launch that a launch resumes: the dropped nodes and how far
/// this moves the mean, the new nodes, and the edges on which one end recorded one exchange more.
/// For other machines it knows only folders that this machine can read.
std::vector<std::string> told_of_nodes(const Options& launch);

}  // namespace grapevine
