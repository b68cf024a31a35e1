// The objects of --json and run.json, one per command. The names are an interface of the program.
// Internal to this folder: it includes nlohmann-json. NaN and infinity become null.
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

/// A text as JSON, and back. If JSON cannot hold it (a path that is not UTF-8): {"text": its
/// printable form, "bytes": its bytes in hexadecimal digits}.
Json json_of_bytes(const std::string&);
std::optional<std::string> bytes_of(const Json&);

/// Every option with its value, by its name in a configuration file.
Json json_of(Options);

Json json_of(const RunSample&);
Json json_of(const TestPoint&);
Json json_of(const ReportedPoint&);
Json json_of(const Score&);

/// The result of a test.
Json found_json(const TestPoint&);
Json json_of(const EpochInfo&);

/// A hash of the bits; 16 digits.
std::string hash_text(const Buffer&);

/// The common part of train and simulate.
Json json_of(const Settings&, const Summary&);

/// A whole simulation; `runs` has one per seed, and the first of them is reported in full.
Json simulation_json(const Settings&, const std::vector<Summary>& runs);

struct MeanAndDeviation {
  double mean = 0, deviation = 0;  // of a sample: divided by n - 1
};
MeanAndDeviation exchanges_of(const std::vector<Summary>& runs);

}  // namespace grapevine
