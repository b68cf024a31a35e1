// RunDirectory: where a run is written down. Every file appears whole or not at all.
//
//   run.json            the resolved options, versions, seed; "state": running, then finished,
//                       interrupted or failed
//   metrics.jsonl       a line a sample, an epoch or an event; metrics.jsonl.part while it goes on
//   plan.toml           the plan, where there is one
//   curves.svg          loss and consensus distance
//   model.safetensors, model.pt   the averaged model (written by the objective)
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "kernels/result.hpp"

namespace grapevine {

class RunDirectory {
 public:
  /// Makes the folder with its parents and opens the stream, so that a folder that cannot be
  /// written is known before any work is done. Errors: user, the folder holds a run already; world,
  /// what the system says. What it made is gone after an error.
  static Result<RunDirectory> make(const std::string& path);

  RunDirectory(RunDirectory&&) = default;
  ~RunDirectory();  // an unfinished stream is removed

  const std::string& path() const { return path_; }

  Status write(const std::string& name, const std::string& text) const;

  /// Adds a line to metrics.jsonl.part, at once. A line that cannot be written whole is left out,
  /// and the next one is tried again. Error (world): the first that is left out after one that was
  /// not.
  Status stream(const std::string& line);
  /// metrics.jsonl, of all lines that were written. Error (world): how many are missing, or what
  /// the system says.
  Status end_stream();

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  RunDirectory(std::string path, File metrics)
      : path_(std::move(path)), metrics_(std::move(metrics)) {}

  std::string path_;
  File metrics_;
  long written_ = 0;      // bytes, of whole lines
  uint64_t missing_ = 0;  // lines
  bool failing_ = false;
  std::string failure_;  // the last
};

/// runs/<UTC time>-<method>-<topology>-<seed>[-<node>], the first of that name that is not there
/// yet.
std::string default_run_path(const std::string& method, const std::string& topology, uint64_t seed,
                             const std::string& node = "");

/// 2024-03-01T12:00:00Z
std::string utc_now();

}  // namespace grapevine
