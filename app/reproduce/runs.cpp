#include "app/reproduce/runs.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <sstream>
#include <system_error>
#include <thread>

#include "app/options/options.hpp"
#include "app/run/interrupts.hpp"
#include "kernels/base/cores.hpp"
#include "kernels/base/mutex.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

Words split(const std::string& text) {
  Words words;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const Spec setting(word, '=');
    GV_CHECK(setting.value.has_value());
    words.emplace_back(setting.name, *setting.value);
  }
  return words;
}

Result<Options> options_of(const Run& run) {
  const Words words = split(run.words);
  std::string objective = default_objective(kSimulate);
  for (const auto& [name, text] : words)
    if (name == "objective") objective = text;
  Options options = default_options(kSimulate, objective);
  const OptionTable table = option_table(options);
  for (const auto& [name, text] : words) {
    const Option* option = find_option(table, name);
    GV_CHECK(option != nullptr);
    if (Status set = set_option(*option, text); !set) return set.error();
  }
  Settings& s = options.settings;
  s.seed = run.seed;
  s.sample_s = 0;
  s.guarded = false;  // as published: these methods do not scale messages
  if (run.rounds > 0) s.gradients = run.rounds * static_cast<uint64_t>(s.ranks);
  if (run.sampled) {  // the k-th sample falls between two rounds
    s.sample_s = s.gradient_s;
    s.gradient_s *= 1 - 1 / (static_cast<double>(run.rounds) + 2);
  }
  if (run.bulk_loss > 0) {
    LinkFault fault;
    fault.frames = FrameClass::bulk;
    fault.probability = run.bulk_loss;
    s.plan.link_faults.push_back(fault);
  }
  if (run.adjust) run.adjust(s);
  if (Status fits = complete(kSimulate, options); !fits) return fits.error();
  return options;
}

}  // namespace

Result<Summary> perform(const Run& run, std::shared_ptr<RoundMeans>* by_round) {
  auto options = options_of(run);
  if (!options) return options.error();
  const Settings& settings = options->settings;
  std::shared_ptr<Objective> objective = run.objective;
  if (!objective) {
    auto made = make_objective_of(settings);
    if (!made) return made.error();
    objective = std::move(*made);
  }
  if (by_round != nullptr)
    objective = *by_round = std::make_shared<RoundMeans>(std::move(objective), settings.ranks);
  Watch watch;
  watch.interrupts = &interrupts();
  Summary summary = execute(settings, objective, watch);
  if (summary.interrupted) return world_error("interrupted");
  if (summary.failure) return *summary.failure;
  if (run.tested) evaluate(settings, watch, *objective, summary);
  if (settings.sample_s > 0) summary.curve.pop_back();  // the end, which is no sample
  return summary;
}

Status for_all(size_t count, const Effort& effort, const std::function<Status(size_t)>& work) {
  std::atomic<size_t> next{0};
  size_t done = 0;
  Mutex mutex;
  Status first = Done{};
  auto take_turns = [&] {
    for (size_t k = next++; k < count; k = next++) {
      const Status status = work(k);
      const Lock lock(mutex);
      if (effort.progress) effort.progress(++done, count);
      if (status) continue;
      next = count;
      if (first) first = status;
    }
  };
  const auto wanted = static_cast<size_t>(effort.threads > 0 ? effort.threads : usable_cores());
  {
    std::vector<std::jthread> threads;
    try {
      for (size_t k = 1; k < std::min(wanted, count); ++k)
        threads.emplace_back(take_turns);
    } catch (const std::system_error&) {  // the threads that could start do all the work
    }
    take_turns();
  }
  return first;
}

Claims joined(const std::vector<Claims>& parts) {
  Claims all;
  for (const Claims& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

Result<std::vector<Summary>> perform_all(const std::vector<Run>& runs, const Effort& effort) {
  std::vector<Summary> summaries(runs.size());
  const Status status = for_all(runs.size(), effort, [&](size_t k) -> Status {
    auto summary = perform(runs[k]);
    if (!summary) return summary.error();
    summaries[k] = std::move(*summary);
    return Done{};
  });
  if (!status) return status.error();
  return summaries;
}

Probe::Probe(ParameterLayout layout, Gradient gradient)
    : layout_(std::move(layout)), gradient_(std::move(gradient)) {}

void Probe::initial_point(int, Vec x) const {
  std::fill_n(static_cast<std::byte*>(x.data), x.bytes(), std::byte{0});
}

double Probe::gradient(int, int rank, uint64_t index, ConstVec x, Vec g) {
  std::fill_n(static_cast<std::byte*>(g.data), g.bytes(), std::byte{0});
  gradient_(rank, index, x, g);
  return 0;
}

Evaluation Probe::evaluate(int, int, ConstVec) {
  return {0, std::numeric_limits<double>::quiet_NaN()};
}

RoundMeans::RoundMeans(std::shared_ptr<Objective> of, int ranks)
    : of_(std::move(of)), ranks_(ranks) {}

double RoundMeans::gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) {
  const size_t first = index * x.size;
  if (heard_.size() <= index) {
    heard_.resize(index + 1);
    sums_.resize(first + x.size);
  }
  ++heard_[index];
  for (size_t k = 0; k < x.size; ++k)
    sums_[first + k] += x.as<double>()[k];
  return of_->gradient(thread, rank, index, x, g);
}

Evaluation RoundMeans::evaluate(int thread, int rank, ConstVec x) {
  return of_->evaluate(thread, rank, x);
}

double RoundMeans::suboptimality(uint64_t rounds) {
  if (rounds >= heard_.size() || heard_[rounds] != ranks_)
    return std::numeric_limits<double>::quiet_NaN();
  const size_t dim = layout().size();
  std::vector<double> mean(dim);
  for (size_t k = 0; k < dim; ++k)
    mean[k] = sums_[rounds * dim + k] / ranks_;
  return of_->evaluate(0, -1, ConstVec(mean.data(), dim, DType::f64)).loss;
}

std::vector<double> parameters_of(const Summary& summary, int rank) {
  const Buffer& x = *summary.ranks[static_cast<size_t>(rank)].x;
  const double* at = x.vec().as<double>();
  return {at, at + x.size()};
}

double payload_after(const Summary& s, double bytes, double rounds, double all) {
  const auto headers = static_cast<double>(s.bytes - s.payload_bytes);
  return (bytes - headers * rounds / all) / static_cast<double>(s.ranks.size());
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values)
    sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace grapevine
