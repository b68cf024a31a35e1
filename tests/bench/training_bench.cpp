// Grapevine compared with a training loop without it: steps per second, interleaved rounds.
//
//   training_bench [ROUNDS [SECONDS [MODEL]]]     rounds (7), about how long a contestant runs (1),
//                                                 cnn-small, cnn-big or gpt-char (all)
//
// Every contestant trains the same network on one LibTorch thread per rank, the same number of
// steps. In each round all of them run one after the other, another one first each time; a ratio is
// the median of the rounds' ratios, so that a machine with other work slows both sides.
// The images need Fashion-MNIST where its package puts it.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "actors/rank/worker.hpp"
#include "actors/run/run.hpp"
#include "kernels/base/random.hpp"
#include "kernels/passes/ops.hpp"
#include "models/heap.hpp"
#include "models/zoo.hpp"
#include "tests/bench/bare_loops.hpp"

namespace grapevine {
namespace {

using bench::BareLoop;
using bench::Order;
using bench::Update;

rusage usage() {
  rusage now;
  getrusage(RUSAGE_SELF, &now);
  return now;
}

struct Work {
  double steps = 0, seconds = 0;
  double exchanges = 0;
  rusage before = usage();
};

struct Reading {
  double steps_per_s = 0;
  double cpu_ms = 0, system_ms = 0;  // a step; the first has the second in it
  double switches = 0, faults = 0;   // a step
  double exchanges = 0;              // a rank and step
};

struct Contestant {
  std::string name;
  std::function<Work(uint64_t steps)> run;  // of each rank
  std::vector<Reading> readings;            // by round
};

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

Reading read(Contestant& contestant, uint64_t steps) {
  const auto ms = [](const timeval& t) {
    return 1e3 * double(t.tv_sec) + 1e-3 * double(t.tv_usec);
  };
  const Work work = contestant.run(steps);
  const rusage before = work.before, after = usage();
  Reading r;
  r.steps_per_s = work.steps / work.seconds;
  r.system_ms = (ms(after.ru_stime) - ms(before.ru_stime)) / work.steps;
  r.cpu_ms = (ms(after.ru_utime) - ms(before.ru_utime)) / work.steps + r.system_ms;
  r.switches = double(after.ru_nvcsw - before.ru_nvcsw) / work.steps;
  r.faults = double(after.ru_minflt - before.ru_minflt) / work.steps;
  r.exchanges = 2 * work.exchanges / work.steps;
  return r;
}

// --- the contestants

// Each of `threads` new threads calls `step` with its own number so many times.
Work repeat(int threads, uint64_t steps, const std::function<void(int thread)>& step) {
  Work work;
  std::vector<std::thread> running;
  const double start = now();
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (uint64_t k = 0; k < steps; ++k)
        step(t);
    });
  }
  for (std::thread& thread : running)
    thread.join();
  work.seconds = now() - start;
  work.steps = double(steps) * threads;
  return work;
}

using Bare = std::function<std::unique_ptr<BareLoop>()>;

Contestant bare(std::string name, int ranks, const Bare& make) {
  auto loops = std::make_shared<std::vector<std::unique_ptr<BareLoop>>>();
  for (int r = 0; r < ranks; ++r)
    loops->push_back(make());
  return {std::move(name),
          [loops, ranks](uint64_t steps) {
            return repeat(ranks, steps, [&](int r) { (*loops)[static_cast<size_t>(r)]->step(); });
          },
          {}};
}

std::shared_ptr<Objective> objective_of(const Settings& settings, int ranks) {
  ObjectiveSpec spec = settings.objective;
  spec.ranks = spec.threads = ranks;
  auto made = make_objective(spec);
  if (made) return std::move(*made);
  std::fprintf(stderr, "%s\n", made.error().message.c_str());
  std::exit(made.error().exit_status());
}

// The objective's gradient and one fused update, without an actor: the rest is the actors' part.
Contestant no_actors(std::string name, const Settings& settings) {
  struct Vectors {
    explicit Vectors(size_t n) : x(n, DType::f32), g(n, DType::f32), v(n, DType::f32) {}
    Buffer x, g, v;
    uint64_t index = 0;
  };
  auto objective = objective_of(settings, 1);
  auto vectors = std::make_shared<Vectors>(objective->layout().size());
  objective->initial_point(0, vectors->x);
  return {std::move(name),
          [objective, vectors](uint64_t steps) {
            return repeat(1, steps, [&](int) {
              Vectors& s = *vectors;
              objective->gradient(0, 0, s.index++, s.x.vec(), s.g);
              mix_and_step({}, 0, {1e-3, 0.9, false, 5e-4}, s.g.vec(), s.v, s.x, {}, {});
            });
          },
          {}};
}

Contestant grapevine(std::string name, int ranks, Settings settings) {
  auto objective = objective_of(settings, ranks);
  settings.topology = "complete";
  settings.ranks = settings.threads = ranks;
  settings.sample_s = 0;
  settings.lr = {1e-3, Schedule::constant, 0};
  return {std::move(name),
          [objective, settings = std::move(settings)](uint64_t steps) mutable {
            settings.gradients = steps * static_cast<uint64_t>(settings.ranks);
            Work work;
            RunHooks hooks;  // the workers are made when run() has measured a gradient or two
            hooks.make_worker = [&work](caf::actor_system& system, WorkerDependencies deps) {
              work.before = usage();
              return spawn_worker(system, std::move(deps));
            };
            const Outcome outcome = run(settings, objective, std::move(hooks))->outcome;
            work.steps = double(outcome.gradients);
            work.seconds = outcome.seconds;
            work.exchanges = double(outcome.exchanges);
            return work;
          },
          {}};
}

// --- the tables

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double median_of(const Contestant& c, double Reading::*field) {
  std::vector<double> values;
  for (const Reading& r : c.readings)
    values.push_back(r.*field);
  return median(values);
}

void print_ratio(const Contestant& ours, const Contestant& other, double required) {
  std::vector<double> ratios;
  for (size_t round = 0; round < ours.readings.size(); ++round)
    ratios.push_back(ours.readings[round].steps_per_s / other.readings[round].steps_per_s);
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  const double cpu = median_of(other, &Reading::cpu_ms) / median_of(ours, &Reading::cpu_ms);
  std::printf("  %-34s / %-30s %5.3f (%.2f to %.2f), by CPU time %5.3f", ours.name.c_str(),
              other.name.c_str(), median(ratios), *least, *most, cpu);
  std::printf(required > 0 ? ", required %.2f\n" : ", for information\n", required);
}

struct Bound {
  size_t ours, other;  // contestants
  double required;     // 0: none
};

void compete(const char* title, std::vector<Contestant> all, const std::vector<Bound>& bounds,
             int rounds, double seconds) {
  for (Contestant& c : all)
    c.run(20);  // LibTorch prepares its kernels, the heap grows
  const Work pace = all[1].run(50);
  const auto steps = static_cast<uint64_t>(std::max(1.0, seconds * pace.steps / pace.seconds));
  const auto n = static_cast<int>(all.size());
  for (int round = 0; round < rounds; ++round) {
    for (int k = 0; k < n; ++k) {
      Contestant& c = all[static_cast<size_t>((round + k) % n)];
      c.readings.push_back(read(c, steps));
    }
  }
  std::printf("\n%s: medians of %d rounds of %lu steps a rank\n", title, rounds, steps);
  std::printf("  %-34s %8s %11s %8s %9s %7s %10s\n", "", "steps/s", "CPU ms/step", "system",
              "switches", "faults", "exchanges");
  for (const Contestant& c : all) {
    std::printf("  %-34s %8.1f %11.3f %8.3f %9.2f %7.1f %10.2f\n", c.name.c_str(),
                median_of(c, &Reading::steps_per_s), median_of(c, &Reading::cpu_ms),
                median_of(c, &Reading::system_ms), median_of(c, &Reading::switches),
                median_of(c, &Reading::faults), median_of(c, &Reading::exchanges));
  }
  for (const Bound& b : bounds)
    print_ratio(all[b.ours], all[b.other], b.required);
}

void compete_on_images(const char* title, int width, int batch, int rounds, double seconds) {
  const auto loop = [=](Update update, Order order) {
    return [=] { return bench::make_bare_loop(width, batch, update, order); };
  };
  const Bare sgd = loop(Update::torch_sgd, Order::channels_last);
  const Bare fused = loop(Update::fused, Order::channels_last);
  Settings settings;
  settings.objective.model = width == 16 ? "cnn-small" : "cnn-big";
  settings.objective.batch = batch;
  std::vector<Contestant> all;
  all.push_back(bare("bare, torch::optim::SGD", 1, sgd));
  all.push_back(bare("bare, fused update", 1, fused));
  all.push_back(bare("bare, SGD, plain layout", 1, loop(Update::torch_sgd, Order::plain)));
  all.push_back(no_actors("objective and fused update", settings));
  all.push_back(grapevine("Grapevine, 1 rank", 1, settings));
  all.push_back(bare("2 bare, torch::optim::SGD", 2, sgd));
  all.push_back(bare("2 bare, fused update", 2, fused));
  all.push_back(grapevine("Grapevine, 2 ranks", 2, settings));
  const double plain = width == 32 ? 1.4 : 0;
  compete(title, std::move(all),
          {{4, 0, 0.97}, {4, 1, 0.95}, {4, 3, 0}, {4, 2, plain}, {7, 5, 0.95}, {7, 6, 0}}, rounds,
          seconds);
}

// As many characters as Tiny Shakespeare has, in a file that the caller deletes.
std::string write_noise() {
  const auto path = std::filesystem::temp_directory_path() /
                    ("training_bench." + std::to_string(getpid()) + ".txt");
  std::ofstream out(path);
  Random random(1, 0, Purpose::test);
  for (int k = 0; k < 1'000'000; ++k)
    out.put(static_cast<char>('0' + random.below(65)));
  return path;
}

void compete_on_text(const char* title, int batch, int rounds, double seconds) {
  const Bare loop = [=] { return bench::make_bare_gpt(batch); };
  const std::string text = write_noise();
  Settings settings;
  settings.objective.model = kTransformerModel;
  settings.objective.dataset = "text:" + text;
  settings.objective.batch = batch;
  settings.objective.clip = 1;
  settings.objective.decay_norms_and_biases = false;
  settings.rule.optimizer = {.weight_decay = 0.1, .kind = OptimizerKind::adamw, .beta2 = 0.99};
  Settings local = settings;
  local.inner_steps = 30;
  std::vector<Contestant> all;
  all.push_back(bare("bare, torch::optim::AdamW", 1, loop));
  all.push_back(grapevine("Grapevine, 1 rank", 1, settings));
  all.push_back(grapevine("Grapevine, 1 rank, 30 inner steps", 1, local));
  all.push_back(bare("2 bare, torch::optim::AdamW", 2, loop));
  all.push_back(grapevine("Grapevine, 2 ranks", 2, settings));
  all.push_back(grapevine("Grapevine, 2 ranks, 30 inner steps", 2, local));
  std::filesystem::remove(text);
  compete(title, std::move(all), {{1, 0, 0.952}, {2, 0, 0.952}, {4, 3, 0}, {5, 3, 0}}, rounds,
          seconds);
}

}  // namespace
}  // namespace grapevine

int main(int argc, char** argv) {
  grapevine::prepare_heap();
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
  const std::string model = argc > 3 ? argv[3] : "all";
  const auto asked = [&](const char* name) { return model == "all" || model == name; };
  const bool is_known = asked("cnn-small") || asked("cnn-big") || asked("gpt-char");
  if (rounds < 1 || !(seconds > 0) || !is_known) {
    std::fprintf(stderr,
                 "usage: training_bench [ROUNDS [SECONDS [MODEL]]], numbers above 0, MODEL "
                 "cnn-small, cnn-big, gpt-char or all\n");
    return 2;
  }
  if (asked("cnn-small"))
    grapevine::compete_on_images("cnn-small, batch 16", 16, 16, rounds, seconds);
  if (asked("cnn-big")) grapevine::compete_on_images("cnn-big, batch 32", 32, 32, rounds, seconds);
  if (asked("gpt-char")) grapevine::compete_on_text("gpt-char, batch 12", 12, rounds, seconds);
}
