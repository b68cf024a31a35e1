#include "app/run/run_record.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "app/checkpoint/real_disk.hpp"
#include "app/output/json_output.hpp"
#include "app/output/report.hpp"
#include "app/run/interrupts.hpp"
#include "app/system/words.hpp"
#include "kernels/base/caught.hpp"

namespace grapevine {
namespace {

constexpr char kBest[] = "best", kBestScore[] = "best/best.json";
constexpr char kModel[] = "model.safetensors", kRunJson[] = "run.json";

// The best score of an earlier life of the run.
std::optional<Score> best_in(const std::string& folder) {
  const auto text = real_disk().read(folder + "/" + kBestScore);
  const Json object = text ? json_of_text<Json>(*text) : Json();
  const bool is_whole = object.is_object() && object.contains("by") && object["by"].is_string() &&
                        object.contains("value") && object["value"].is_number() &&
                        object.contains("more_is_better") &&
                        object["more_is_better"].is_boolean() && object.contains("gradients") &&
                        object["gradients"].is_number_unsigned();
  if (!is_whole) return {};
  return Score{object["by"], object["value"], object["more_is_better"], object["gradients"]};
}

Json models_in(const std::string& folder) {
  Json models = Json::object();
  std::error_code unreadable;
  if (std::filesystem::exists(folder + "/" + kModel, unreadable)) models["last"] = kModel;
  const std::string best = std::string(kBest) + "/" + kModel;
  if (std::filesystem::exists(folder + "/" + best, unreadable)) models["best"] = best;
  return models;
}

// The cause of the failure. A failure of the machine may be gone when the same command starts again
// (checkpoint/resume.hpp); a wrong setting or a divergence is not.
std::string failure_json(const Error& why, bool has_diverged) {
  const char* by = interrupts() > 0 && !terminated() ? "interrupt"
                   : has_diverged                    ? "divergence"
                   : why.kind == Error::Kind::user   ? "user"
                                                     : "world";
  return json_text(Json{{"by", by}, {"line", why.message}});
}

}  // namespace

std::string run_path(const Options& o, const std::string& node) {
  if (!o.out.empty() || !o.save) return o.out;
  return default_run_path(o.settings.method, o.settings.topology, o.settings.seed, node);
}

RunRecord::RunRecord(const char* command, const Options& options, const std::string& description)
    : command_(command), options_(options), description_(description), started_(utc_now()) {
  progress_.emplace(options.settings, options.log);
  watch_.interrupts = &interrupts();
  watch_.interrupt_is_for_all = &interrupt_is_for_all();
  order_tests();
  watch_.sample = options.sample;
  watch_.on_point = [this](const RunSample& p) {
    const Lock lock(mutex_);
    stream(json_text(json_of(p)));
    tell_events(p);
    if (progress_) progress_->point(p);
  };
  if (options.settings.local_ranks > 0)  // ranks may have started from the state of others
    watch_.on_report = [this](const RanksReport& report) {
      const Lock lock(mutex_);
      tell_reached(report);
    };
  watch_.on_epoch = [this](const EpochInfo& e) {
    const Lock lock(mutex_);
    const bool is_first = !std::exchange(has_begun_, true) && options_.peers.first_rank <= 0;
    if (checkpoints_) checkpoints_->set_epoch(e.epoch, e.topology);
    stream(json_text(json_of(e)));
    const bool news = e.epoch > 1 || options_.settings.clock == Clock::wall;
    if (!progress_ || !news) return;
    progress_->say(epoch_text(e));
    if (is_first) progress_->say(kWordsOfARun);
  };
  watch_.on_reported = [this](const ReportedPoint& p) {
    const Lock lock(mutex_);
    stream(json_text(json_of(p)));
    if (events_) add_events(p.rank, p.gradients, p.values);
  };
  watch_.on_event = [this](const std::string& event) {
    const Lock lock(mutex_);
    stream(json_text(Json{{"time", utc_now()}, {"event", event}}));
    if (!progress_) return;
    if (event.starts_with(kAlarm) || event.starts_with(kAlarmOver))
      progress_->warn(event);
    else
      progress_->say(event);
  };
}

void RunRecord::order_tests() {
  TestOrders& tests = watch_.tests;
  tests.every = *every_of("test-every", options_.test_every);
  tests.stop_after = options_.early_stop;
  tests.on_test = [this](const TestPoint& p, const Score& best) {
    const Lock lock(mutex_);
    stream(json_text(json_of(p)));
    tell_events(p);
    if (progress_) progress_->test(p, best);
    if (checkpoints_)
      checkpoints_->set_score(score_of(p, options_.settings.objective.validation_split > 0));
  };
  tests.on_best = [this](const TestPoint&, const Score& score, Objective& objective, ConstVec x) {
    if (directory_) keep_best(score, objective, x);
  };
}

// The model before its score: if the process is killed between the two, the model is at least as
// good as the score.
void RunRecord::keep_best(const Score& score, Objective& objective, ConstVec x) {
  const std::string folder = directory_->path() + "/" + kBest;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  Status kept = failed ? Status(world_error("cannot make " + folder + ": " + failed.message()))
                       : objective.save_model(folder, x);
  if (kept) kept = directory_->write(kBestScore, json_text(json_of(score), 2) + "\n");
  const Lock lock(mutex_);
  alarm(kept);
}

Result<std::unique_ptr<RunRecord>> RunRecord::begin(const char* command, const Options& options,
                                                    const Objective& objective,
                                                    const std::string& directory, Beginning begins,
                                                    CheckpointThread::KeptOf kept) {
  if (!options.sample.empty())
    if (Status can = objective.can_write_on(options.sample); !can) return can.error();
  std::unique_ptr<RunRecord> record(new RunRecord(command, options, objective.description()));
  if (!directory.empty())
    if (Status s = record->open(directory, std::move(begins.lock)); !s) return s.error();
  const uint64_t epoch = begins.resumption.epoch;
  const uint32_t generation = begins.resumption.generation;
  record->progress_->resumed_at(gradients_of(begins.resumption));
  record->watch_.resumption = std::make_shared<Resumption>(std::move(begins.resumption));
  for (const std::string& line : begins.told)
    record->watch_.on_event(line);
  RunIdentity run = identity_of(options, objective);
  run.cuts = std::move(begins.cuts);
  run.generation = generation;
  record->save(epoch, std::move(run), std::move(kept));
  return record;
}

RunRecord::~RunRecord() {
  if (is_over_) return;
  static_cast<void>(caught([this]() -> Status {
    return refuse(world_error("the program ended by the error in its last line"));
  }));
}

Status RunRecord::open(const std::string& directory, std::optional<FolderLock> taken_up) {
  auto made = RunDirectory::make(directory, std::move(taken_up));
  if (!made) return made.error();
  directory_.emplace(std::move(*made));
  if (auto lines = directory_->lines()) earlier_ = curves_in(lines);
  if (!directory_->warning().empty()) watch_.on_event(kAlarm + directory_->warning());
  watch_.tests.best = best_in(directory);
  if (Status s = directory_->write(kRunJson, run_json("running", "")); !s) return s;
  const std::string ended_here = run_json("interrupted", "");
  interrupted_.emplace(directory_->path() + "/" + kRunJson, ended_here);
  if (interrupts() > 0 && !terminated())  // Ctrl+C came just before
    if (Status s = directory_->write(kRunJson, ended_here); !s) return s;
  if (options_.tensorboard)
    if (Status s = begin_events(); !s) return s;
  if (options_.plan.empty()) return Done{};
  std::ostringstream plan;
  plan << std::ifstream(options_.plan).rdbuf();
  return directory_->write("plan.toml", plan.str());
}

// A run on the virtual clock lasts seconds, and is saved only if the options ask for it.
void RunRecord::save(uint64_t epoch, RunIdentity run, CheckpointThread::KeptOf kept) {
  constexpr const char* kUsually = "300s";
  const bool wall = options_.settings.clock == Clock::wall;
  std::string how_often = options_.checkpoint_every;
  const bool never = how_often == "0" || (how_often.empty() && !wall);
  if (!directory_ || never) return;
  if (how_often.empty()) how_often = kUsually;
  const auto every = every_of("checkpoint-every", how_often);
  checkpoints_ = std::make_unique<CheckpointThread>(directory_->path(), std::move(run), wall,
                                                    watch_.on_event, std::move(kept));
  checkpoints_->set_epoch(epoch, options_.settings.topology);
  CheckpointOrders& orders = watch_.checkpoints;
  orders.every_s = every->seconds;
  orders.every_steps = every->steps;
  orders.asked = &checkpoint_requests();
  orders.write = [to = checkpoints_.get()](CheckpointPart part, CheckpointOrders::Done done) {
    to->write(std::move(part), std::move(done));
  };
  orders.stop = [to = checkpoints_.get()] { to->stop(); };
}

std::string RunRecord::run_json(const char* state, const std::string& result,
                                const std::string& failure) const {
  Json object = {{"command", command_},
                 {"state", state},
                 {"seed", options_.settings.seed},
                 {"started", started_},
                 {"versions",
                  {{"grapevine", GRAPEVINE_VERSION},
                   {"compiler", __VERSION__},
                   {"caf", runtime_version()},
                   {"libtorch", GRAPEVINE_TORCH_VERSION}}},
                 {"objective", description_},
                 {"options", json_of(options_)}};
  if (terminated()) object["preempted"] = true;
  if (!failure.empty()) object["failure"] = json_of_text<Json>(failure);
  if (!result.empty()) {
    object["models"] = models_in(directory_->path());
    object["ended"] = utc_now();
    object["result"] = json_of_text<Json>(result);
  }
  return json_text(object, 2) + "\n";
}

void RunRecord::stream(const std::string& line) {
  if (!directory_) return;
  alarm(directory_->stream(line));
}

void RunRecord::alarm(const Status& written) {
  if (!written && progress_) progress_->warn(kAlarm + written.error().message);
}

// --- TensorBoard: curves of the mean, and of the first ranks

Status RunRecord::begin_events() {
  auto made = EventFile::make(directory_->path() + "/tensorboard/mean");
  if (!made) return made.error();
  events_.emplace(std::move(*made));
  watch_.on_ranks = [this](const RunSample& p, const RankSample& ranks) {
    const Lock lock(mutex_);
    tell_events(p, ranks);
  };
  watch_.on_report = [this](const RanksReport& report) {
    const Lock lock(mutex_);
    tell_reached(report);
    tell_events(report);
  };
  const Json options = json_of(options_);
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : options.items())
    settings[name] = value.is_string() ? value.get<std::string>() : json_text(value);
  return events_->hyper_parameters(settings);
}

void RunRecord::tell_reached(const RanksReport& report) {
  uint64_t gradients = 0;
  for (const WorkerReport& worker : report.workers)
    gradients += worker.gradients;
  if (progress_ && options_.settings.local_ranks > 0) progress_->reached(gradients);
}

void RunRecord::tell_events(const RunSample& p) {
  if (!events_) return;
  alarm(events_->scalars(p.gradients, {{"loss", p.loss},
                                       {"learning_rate", p.learning_rate},
                                       {"suboptimality", p.suboptimality},
                                       {"consensus_distance", p.consensus_distance},
                                       {"relative_consensus_distance", p.relative_distance},
                                       {"exchanges", static_cast<double>(p.exchanges)},
                                       {"bytes", static_cast<double>(p.bytes)},
                                       {"seconds", p.at_s},
                                       {"ranks", static_cast<double>(p.ranks)}}));
}

void RunRecord::tell_events(const TestPoint& p) {
  if (!events_) return;
  alarm(events_->scalars(p.gradients, {{"accuracy", p.test.accuracy},
                                       {"test_loss", p.test.loss},
                                       {"validation_accuracy", p.validation.accuracy},
                                       {"validation_loss", p.validation.loss}}));
}

// Null: there are already kRanksSampled files.
Result<EventFile*> RunRecord::events_of(int rank) {
  const auto found = rank_events_.find(rank);
  if (found != rank_events_.end()) return &found->second;
  if (rank_events_.size() >= kRanksSampled) return static_cast<EventFile*>(nullptr);
  auto made = EventFile::make(fmt::format("{}/tensorboard/rank-{}", directory_->path(), rank));
  if (!made) return made.error();
  return &rank_events_.emplace(rank, std::move(*made)).first->second;
}

void RunRecord::add_events(int rank, uint64_t step, const EventFile::Scalars& scalars) {
  if (without_rank_events_) return;
  const auto file = events_of(rank);
  without_rank_events_ = !file;
  if (!file) return alarm(file.error());
  if (*file != nullptr) alarm((*file)->scalars(step, scalars));
}

void RunRecord::tell_events(const RunSample& p, const RankSample& ranks) {
  for (size_t r = 0; r < ranks.distances.size(); ++r)
    add_events(
        static_cast<int>(r), p.gradients,
        {{"consensus_distance", ranks.distances[r]}, {"suboptimality", ranks.suboptimalities[r]}});
}

void RunRecord::tell_events(const RanksReport& report) {
  uint64_t step = 0;
  for (const WorkerReport& w : report.workers)
    step += w.gradients;
  std::map<int, EventFile::Scalars> ranks;
  for (const WorkerReport& w : report.workers)
    ranks[w.rank] = {{"gradients", static_cast<double>(w.gradients)},
                     {"idle_fraction", w.alive_s > 0 ? w.idle_s / w.alive_s : 0}};
  for (const CommunicatorReport& c : report.communicators)
    ranks[c.rank].push_back({"exchanges", static_cast<double>(c.counts.applied)});
  for (const auto& [rank, scalars] : ranks)
    add_events(rank, step, scalars);
}

Status RunRecord::end_events(const Summary& s) {
  const Status mean = events_->scalars(
      s.gradients, {{"final_loss", s.averaged.loss}, {"final_accuracy", s.averaged.accuracy}});
  if (!mean) return mean;
  size_t alive = 0;
  const size_t told = std::min(s.ranks.size(), size_t{kRanksSampled});
  for (size_t r = 0; r < told; ++r) {
    const RankSummary& rank = s.ranks[r];
    auto file = events_of(s.first_rank + static_cast<int>(r));
    if (!file) return file.error();
    if (*file == nullptr) continue;
    EventFile::Scalars scalars{{"gradients", static_cast<double>(rank.gradients)},
                               {"idle_fraction", rank.idle_fraction}};
    if (rank.alive && alive < s.by_rank.size()) {
      scalars.push_back({"final_loss", s.by_rank[alive].loss});
      scalars.push_back({"final_accuracy", s.by_rank[alive].accuracy});
    }
    alive += rank.alive;
    if (Status written = (*file)->scalars(s.gradients, scalars); !written) return written;
  }
  return Done{};
}

void RunRecord::complete(Summary& summary) {
  progress_.reset();
  summary.earlier = std::move(earlier_);
}

Status RunRecord::finish(const Summary& s, Objective& objective, const std::string& result) {
  progress_.reset();
  if (!directory_) return Done{};
  Status metrics = directory_->end_stream();
  if (events_ && metrics) metrics = end_events(s);
  const Status whole = write_all(s, objective);
  const Error* why = s.failure ? &*s.failure : whole ? nullptr : &whole.error();
  const char* state = why != nullptr    ? "failed"
                      : s.interrupted   ? "interrupted"
                      : s.stopped       ? "stopped"
                      : s.drained       ? "drained"
                      : shortfall_of(s) ? "incomplete"
                                        : "finished";
  const std::string failure = why != nullptr ? failure_json(*why, s.alarm.has_value()) : "";
  interrupted_.reset();
  is_over_ = true;
  const Status recorded = record_end(run_json(state, result, failure), why);
  if (!recorded || s.failure) return recorded;
  const bool comes_back = checkpoints_ && (s.drained || terminated());
  const Status saved = comes_back ? checkpoints_->newest() : Done{};
  return !whole ? whole : !saved ? saved : metrics;
}

// Error: `why`, if the run has failed, and that the record could not be written.
Status RunRecord::record_end(const std::string& record, const Error* why) {
  const Status written = directory_->write_record(record);
  if (written) return written;
  const std::string before = why != nullptr ? why->message + "; " : "";
  return Error{why != nullptr ? why->kind : Error::Kind::world,
               before + written.error().message + ", so it still says that the run is running"};
}

Error RunRecord::refuse(const Error& why) {
  is_over_ = true;
  progress_.reset();
  if (!directory_) return why;
  interrupted_.reset();
  const std::string failure =
      json_text(Json{{"by", has_begun_ ? "world" : kStartRefused}, {"line", why.message}});
  const Status recorded = record_end(run_json("failed", "", failure), &why);
  return recorded ? why : recorded.error();
}

Status RunRecord::write_all(const Summary& s, Objective& objective) {
  const Settings& settings = options_.settings;
  const std::string title = fmt::format("{}, {} of {}, seed {}", settings.method, settings.topology,
                                        settings.ranks, settings.seed);
  const uint64_t pass = gradients_per_pass(objective, settings);
  const std::string curves = curves_svg(title, s, pass);
  if (Status ok = directory_->write("curves.svg", curves); !ok) return ok;
  if (s.failure || s.mean.size() == 0) return Done{};  // no mean: it ended before its ranks began
  return objective.save_model(directory_->path(), s.mean.vec());
}

}  // namespace grapevine
