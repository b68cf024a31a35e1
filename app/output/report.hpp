// The tables that a run ends with, for people, on standard output.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "actors/settings/settings.hpp"
#include "app/output/summary.hpp"

namespace grapevine {

/// "epoch 2: ring of 16, chi1 13.14, ..."
std::string epoch_text(const EpochInfo&);
/// Explains the words of epoch_text() and of the lines that follow, for a new user.
extern const char* const kWordsOfARun;

/// Of a run of which not all was done; nothing: all was, as far as is known here.
std::optional<Error> shortfall_of(const Summary&);

struct TrainingTimes {
  double evaluation_s = 0, total_s = 0;
};

void print_training(const Settings&, const Summary&, const TrainingTimes&,
                    const std::string& run_dir);

/// One process of several; the settings' ranks are its own.
void print_node(const Settings&, const Summary&, const TrainingTimes&, const std::string& address,
                const std::string& run_dir);

/// The first run in full, and the exchanges of all.
void print_simulation(const Settings&, const std::vector<Summary>& runs,
                      const std::string& run_dir);

/// The text that the averaged model has written; prints nothing if it is empty.
void print_sample(const std::string& text);

/// The largest and the mean idle fraction of all ranks; NaN ones left out.
struct Idle {
  double mean = 0, most = 0;
  int rank = -1;  // that idles most
};
Idle idle_of(const Summary&);

}  // namespace grapevine
