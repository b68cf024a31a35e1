// RunDirectory: where a run is written down. Every file appears whole or not at all.
//
//   run.json            the resolved options, versions, seed; "state": running, then finished,
//                       interrupted or failed
//   metrics.jsonl       a line a sample, an epoch or an event; metrics.jsonl.part while it goes on
//   plan.toml           the plan, where there is one
//   curves.svg          loss and consensus distance
//   model.safetensors, model.pt   the averaged model (written by the objective)
#pragma once
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

  /// Adds a line to metrics.jsonl.part, at once. What fails is told by end_stream.
  void stream(const std::string& line);
  Status end_stream();  // metrics.jsonl

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  RunDirectory(std::string path, File metrics)
      : path_(std::move(path)), metrics_(std::move(metrics)) {}

  std::string path_;
  File metrics_;
  std::string failure_;
};

/// runs/<UTC time>-<method>-<topology>-<seed>[-<node>], the first of that name that is not there
/// yet.
std::string default_run_path(const std::string& method, const std::string& topology, uint64_t seed,
                             const std::string& node = "");

/// 2024-03-01T12:00:00Z
std::string utc_now();

}  // namespace grapevine
