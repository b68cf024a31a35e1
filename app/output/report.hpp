// The tables at the end of a run, for people, on standard output.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "actors/settings/settings.hpp"
#include "app/output/summary.hpp"

namespace grapevine {

/// "epoch 2: ring of 16, chi1 13.14, ..."
std::string epoch_text(const EpochInfo&);
/// Explains the words in epoch_text() and in the lines after it, for a new user.
extern const char* const kWordsOfARun;

/// The error of a run that did not do all its work; `why`: "1 of 4 ranks here are gone".
Error shortfall(const std::string& why);
/// No value: all work was done, as far as is known here.
std::optional<Error> shortfall_of(const Summary&);

struct TrainingTimes {
  double evaluation_s = 0, total_s = 0;
};

void print_training(const Settings&, const Summary&, const TrainingTimes&,
                    const std::string& run_dir);

/// One process of several; the settings count its own ranks.
void print_node(const Settings&, const Summary&, const TrainingTimes&, const std::string& address,
                const std::string& run_dir);

/// The first run in full, and the exchanges of all.
void print_simulation(const Settings&, const std::vector<Summary>& runs,
                      const std::string& run_dir);

/// The name of the averaged model's loss: of a network on test data, else above the least loss.
const char* name_of_loss(const Settings&);

/// The text that the averaged model has written; prints nothing if it is empty.
void print_sample(const std::string& text);

/// The largest and the mean idle fraction of all ranks, without NaN.
struct Idle {
  double mean = 0, most = 0;
  int rank = -1;  // with the largest fraction
};
Idle idle_of(const Summary&);

}  // namespace grapevine
