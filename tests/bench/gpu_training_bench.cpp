// Grapevine on a GPU compared with bare loops of LibTorch: samples per second of ResNet-18 on
// images of 32x32, in interleaved rounds on one GPU.
//
//   gpu_training_bench [DEVICE [ROUNDS [SECONDS [RANKS [BATCHES [ROWS]]]]]]
//
// DEVICE (cuda), ROUNDS (3) of SECONDS (2) a contestant, RANKS (64) that share the GPU, BATCHES
// (128,32), ROWS (all): lone, partner or many. A line for each claim: `row NAME  ours S other S
// ratio R required R`, S samples a second, R the median of the rounds' ratios. Status 77 where no
// GPU is, 1 where a run fails.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/run/gpu.hpp"
#include "actors/run/run_node.hpp"
#include "kernels/base/random.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "models/data/data_set.hpp"
#include "models/heap.hpp"
#include "tests/bench/bare_resnet.hpp"

namespace grapevine {
namespace {

struct Options {
  std::string device = "cuda";
  int rounds = 3;
  double seconds = 2;
  int ranks = 64;
  std::vector<int> batches = {128, 32};
  std::string rows = "all";
  int gpu = 0;  // -1: none, and the CPU instead
};

[[noreturn]] void stop(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(1);
}

DataSet noise() {
  DataSet set;
  set.name = "noise";
  set.classes = 10;
  set.mirrors = true;
  set.crop_padding = 4;
  for (Samples* const samples : {&set.train, &set.test}) {
    const size_t count = samples == &set.train ? 8192 : 256;
    samples->shape = {3, 32, 32, true};
    Random random(1, 0, Purpose::test);
    for (size_t k = 0; k < count * samples->shape.size(); ++k)
      samples->pixels.push_back(static_cast<uint8_t>(random.below(256)));
    for (size_t k = 0; k < count; ++k)
      samples->labels.push_back(static_cast<uint8_t>(random.below(10)));
  }
  return set;
}

Settings settings_of(const Options& o, int ranks, int batch, const char* precision) {
  Settings s;
  s.topology = "ring";
  s.ranks = ranks;
  s.device = o.device;
  s.gradients = 0;
  s.until_s = o.seconds;
  s.sample_s = 0;
  s.lr = {1e-3, Schedule::constant, 0};
  s.objective.model = "resnet18";
  s.objective.dataset = "noise";
  s.objective.batch = batch;
  s.objective.precision = precision;
  return s;
}

std::shared_ptr<Objective> objective_of(const Settings& s) {
  auto made = make_objective(s);
  if (!made) stop(made.error());
  return *made;
}

struct Reading {
  double samples_per_s = 0, exchanges = 0;  // of a step
};
using Contestant = std::function<Reading(double seconds)>;

using Seconds = std::chrono::steady_clock;

/// From when each rank here has computed one to the last: how a run begins and ends is not its
/// pace.
class Counted final : public Objective {
 public:
  Counted(std::shared_ptr<Objective> of, int ranks)
      : of_(std::move(of)), ranks_(static_cast<size_t>(ranks)) {}

  const ParameterLayout& layout() const override { return of_->layout(); }
  const ParameterLayout& statistics() const override { return of_->statistics(); }
  void read_statistics(int rank, Vec out) const override { of_->read_statistics(rank, out); }
  void set_average_statistics(ConstVec average) override { of_->set_average_statistics(average); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  bool starts_alike() const override { return of_->starts_alike(); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    const double loss = of_->gradient(thread, rank, index, x, g);
    count(rank);
    return loss;
  }
  Status use_gpu(int number) override { return of_->use_gpu(number); }
  void use_host() override { of_->use_host(); }
  void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss) override {
    of_->queue_gradient(thread, stream, rank, index, x, g, loss);
  }
  void gradient_came(int thread, int rank) override {
    of_->gradient_came(thread, rank);
    count(rank);
  }
  void lose_gpu() override { of_->lose_gpu(); }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

  Reading reading(const Outcome& outcome, int batch) const {
    if (outcome.failure) stop(*outcome.failure);
    const std::chrono::duration<double> took = last_ - first_;
    if (count_ < 2) stop(world_error("the run has ended before all of its ranks had begun"));
    const auto gradients = static_cast<double>(count_);
    return {(gradients - 1) * batch / took.count(),
            static_cast<double>(outcome.exchanges) / static_cast<double>(all_)};
  }

 private:
  void count(int rank) {
    const std::lock_guard lock(mutex_);
    ++all_;
    begun_.insert(rank);
    if (begun_.size() < ranks_) return;  // the others still come
    last_ = Seconds::now();
    if (count_++ == 0) first_ = last_;
  }

  const std::shared_ptr<Objective> of_;
  const size_t ranks_;  // here
  std::mutex mutex_;    // guards what follows
  std::set<int> begun_;
  uint64_t all_ = 0, count_ = 0;
  Seconds::time_point first_, last_;
};

Contestant bare(const Options& o, bench::BareResnet::Kind kind, int batch, bool bf16) {
  const std::shared_ptr<bench::BareResnet> loop = bench::BareResnet::make(kind, o.gpu, batch, bf16);
  return [loop, batch](double seconds) {
    loop->step(), loop->finish();
    const auto begun = Seconds::now();
    std::chrono::duration<double> took{0};
    double samples = 0;
    for (; took.count() < seconds; took = Seconds::now() - begun, samples += batch)
      loop->step();
    loop->finish();
    took = Seconds::now() - begun;
    return Reading{samples / took.count(), 0};
  };
}

Contestant ours(const Options& o, int ranks, int batch, const char* precision, double rate) {
  Settings s = settings_of(o, ranks, batch, precision);
  s.rate = rate;
  const auto objective = objective_of(s);
  return [s, objective, ranks, batch](double seconds) mutable {
    s.until_s = seconds;
    const auto counted = std::make_shared<Counted>(objective, ranks);
    const auto result = run(s, counted);
    if (!result) stop(result.error());
    return counted->reading(result->outcome, batch);
  };
}

// --- with a partner that only gossips, on the CPU, in a process of its own

class Gossiping final : public Objective {
 public:
  explicit Gossiping(std::shared_ptr<Objective> of) : of_(std::move(of)) {}

  const ParameterLayout& layout() const override { return of_->layout(); }
  const ParameterLayout& statistics() const override { return of_->statistics(); }
  void read_statistics(int rank, Vec out) const override { of_->read_statistics(rank, out); }
  void set_average_statistics(ConstVec average) override { of_->set_average_statistics(average); }
  bool has_gradients() const override { return false; }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  bool starts_alike() const override { return of_->starts_alike(); }
  double gradient(int, int, uint64_t, ConstVec, Vec) override { return 0; }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  const std::shared_ptr<Objective> of_;
};

NodeSettings node_of(const std::string& run, int first_rank) {
  NodeSettings node;
  node.run = run;
  node.name = run + "-" + std::to_string(first_rank);
  node.first_rank = first_rank;
  node.total_ranks = 2;
  return node;
}

int gossip_with(const Options& o, const std::string& run, const std::string& address) {
  Settings s = settings_of(o, 2, 1, kFp32);
  s.local_ranks = 1;
  s.device = "cpu";
  NodeSettings node = node_of(run, 1);
  node.join = {address};
  const auto result = run_node(s, node, std::make_shared<Gossiping>(objective_of(s)));
  return result ? 0 : 1;
}

Contestant with_partner(const Options& o, int batch, const std::string& program) {
  Settings s = settings_of(o, 2, batch, kFp32);
  s.local_ranks = 1;
  const auto objective = objective_of(s);
  return [s, objective, batch, program, round = 0](double seconds) mutable {
    s.until_s = seconds;
    const auto counted = std::make_shared<Counted>(objective, 1);
    const std::string run = "bench-" + std::to_string(getpid()) + "-" + std::to_string(round++);
    pid_t partner = 0;
    NodeHooks hooks;
    hooks.on_listening = [&](const std::string& address) {
      const std::string lasts = std::to_string(seconds);
      partner = fork();
      if (partner != 0) return;
      execl(program.c_str(), program.c_str(), "--partner", run.c_str(), address.c_str(),
            lasts.c_str(), nullptr);
      _exit(127);
    };
    const auto result = run_node(s, node_of(run, 0), counted, std::move(hooks));
    if (partner > 0) waitpid(partner, nullptr, 0);
    if (!result) stop(result.error());
    return counted->reading(result->outcome, batch);
  };
}

// --- the rows

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Row {
  std::string name;
  double required = 0;  // of the ratio
  Contestant other;
};

/// A line for each of the others.
void compare(const Options& o, const Contestant& own, const std::vector<Row>& rows) {
  std::vector<const Contestant*> all = {&own};
  for (const Row& row : rows)
    all.push_back(&row.other);
  std::vector<std::vector<double>> paces(all.size()), ratios(all.size());
  std::vector<double> exchanges;
  for (int round = -1; round < o.rounds; ++round) {  // before the first LibTorch finds its kernels
    std::vector<Reading> read(all.size());
    for (size_t k = 0; k < all.size(); ++k) {
      const size_t place = round % 2 == 0 ? k : all.size() - 1 - k;
      read[place] = (*all[place])(o.seconds);
    }
    if (round < 0) continue;
    exchanges.push_back(read[0].exchanges);
    for (size_t k = 0; k < all.size(); ++k) {
      paces[k].push_back(read[k].samples_per_s);
      ratios[k].push_back(read[0].samples_per_s / read[k].samples_per_s);
    }
  }
  for (size_t k = 1; k < all.size(); ++k) {
    std::printf("row %-40s  ours %.1f other %.1f ratio %.3f required %.2f",
                rows[k - 1].name.c_str(), median(paces[0]), median(paces[k]), median(ratios[k]),
                rows[k - 1].required);
    std::printf("  (%.2f exchanges a step)\n", median(exchanges));
  }
  std::fflush(stdout);
}

using Kind = bench::BareResnet::Kind;

void compare_lone(const Options& o) {
  for (const int batch : o.batches) {
    for (const char* precision : {kFp32, kBf16}) {
      const std::string name = std::string("lone ") + precision + " " + std::to_string(batch);
      const bool bf16 = std::strcmp(precision, kBf16) == 0;
      const bool is_large = batch >= 128;
      compare(o, ours(o, 1, batch, precision, 1),
              {{name, is_large ? 0.98 : 0.95, bare(o, Kind::plain, batch, bf16)},
               {name + ", a good loop", is_large ? 0.98 : 0, bare(o, Kind::good, batch, bf16)}});
    }
  }
}

void compare_with_partner(const Options& o) {
  const int largest = o.batches.front();
  compare(o, with_partner(o, largest, "/proc/self/exe"),
          {{"with a partner on the CPU, fp32 " + std::to_string(largest), 0.95,
            bare(o, Kind::plain, largest, false)}});
}

void compare_many(const Options& o) {
  const int least = o.batches.back();
  const std::string many = std::to_string(o.ranks) + " ranks, fp32 " + std::to_string(least);
  constexpr double kSeldom = 1e-3;  // exchanges a step
  compare(o, ours(o, o.ranks, least, kFp32, 1),
          {{many, 0.9, ours(o, 1, least, kFp32, 1)},
           {many + " beside no exchanges", 0, ours(o, o.ranks, least, kFp32, kSeldom)}});
}

struct Rows {
  const char* name;
  void (*compare)(const Options&);
};
constexpr Rows kRows[] = {
    {"lone", compare_lone}, {"partner", compare_with_partner}, {"many", compare_many}};

Status compare_those(const Options& o) {
  bool found = false;
  for (const Rows& rows : kRows) {
    if (o.rows != "all" && o.rows != rows.name) continue;
    rows.compare(o);
    found = true;
  }
  if (found) return Done{};
  return user_error("rows are \"" + o.rows + "\", accepted: all, lone, partner, many");
}

}  // namespace
}  // namespace grapevine

int main(int argc, char** argv) {
  using namespace grapevine;
  prepare_heap();
  Options o;
  static_cast<void>(
      register_data_set("noise", [](const std::string&) -> Result<DataSet> { return noise(); }));
  if (argc == 5 && std::strcmp(argv[1], "--partner") == 0) {
    o.seconds = std::atof(argv[4]);
    return gossip_with(o, argv[2], argv[3]);
  }
  if (argc > 1) o.device = argv[1];
  if (argc > 2) o.rounds = std::atoi(argv[2]);
  if (argc > 3) o.seconds = std::atof(argv[3]);
  if (argc > 4) o.ranks = std::atoi(argv[4]);
  if (argc > 6) o.rows = argv[6];
  if (argc > 5) {
    o.batches.clear();
    for (const char* at = argv[5]; at != nullptr; at = std::strchr(at, ',')) {
      at += *at == ',';
      o.batches.push_back(std::atoi(at));
    }
  }
  const auto number = gpu_named(o.device);
  if (!number) stop(number.error());
  o.gpu = number->value_or(-1);
  if (*number && cuda_device_count() == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 77;
  }
  if (Status known = compare_those(o); !known) stop(known.error());
  return 0;
}
