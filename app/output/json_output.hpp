// The objects that --json prints and run.json holds, one per command. The names are an interface of
// the program. Internal to this folder: it includes nlohmann-json. NaN and infinity are null.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/options/options.hpp"
#include "app/output/summary.hpp"
#include "app/system/json_text.hpp"
#include "topologies/spectrum.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

using Json = nlohmann::ordered_json;

/// One object, one line, on standard output.
void print_json(const Json&);

/// A text, or {"text": as it may be shown, "bytes": its bytes in hexadecimal digits} where it has
/// what no JSON has (a path that is not UTF-8), and back.
Json json_of_bytes(const std::string&);
std::optional<std::string> bytes_of(const Json&);

/// Every option with the value that it had, by its name in a configuration file.
Json json_of(Options);

Json json_of(const RunSample&);
Json json_of(const TestPoint&);
Json json_of(const ReportedPoint&);
Json json_of(const Score&);

/// Of a test: what was found.
Json found_json(const TestPoint&);
Json json_of(const EpochInfo&);

/// Of the bits; 16 digits.
std::string hash_text(const Buffer&);

/// The common part of train and simulate.
Json json_of(const Settings&, const Summary&);

/// All of a simulation; `runs` has one per seed, the first of them told in full.
Json simulation_json(const Settings&, const std::vector<Summary>& runs);

struct MeanAndDeviation {
  double mean = 0, deviation = 0;  // of a sample: over n - 1
};
MeanAndDeviation exchanges_of(const std::vector<Summary>& runs);

}  // namespace grapevine
