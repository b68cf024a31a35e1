// Grapevine compared with a training loop without it: steps per second, interleaved rounds.
//
//   training_bench [ROUNDS [SECONDS]]     rounds (7), and about how long a contestant runs (1)
//
// Every contestant trains the same network on one LibTorch thread per rank, the same number of
// steps. In each round all of them run one after the other, another one first each time; a ratio is
// the median of the rounds' ratios, so that a machine with other work slows both sides.
// Needs Fashion-MNIST where its package puts it.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "actors/rank/worker.hpp"
#include "actors/run/run.hpp"
#include "kernels/passes/ops.hpp"
#include "models/heap.hpp"
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

Contestant bare(std::string name, int ranks, int width, int batch, Update update, Order order) {
  auto loops = std::make_shared<std::vector<std::unique_ptr<BareLoop>>>();
  for (int r = 0; r < ranks; ++r)
    loops->push_back(bench::make_bare_loop(width, batch, update, order));
  return {std::move(name),
          [loops, ranks](uint64_t steps) {
            return repeat(ranks, steps, [&](int r) { (*loops)[static_cast<size_t>(r)]->step(); });
          },
          {}};
}

std::shared_ptr<Objective> network(int ranks, int width, int batch) {
  ObjectiveSpec spec;
  spec.model = width == 16 ? "cnn-small" : "cnn-big";
  spec.batch = batch;
  spec.ranks = spec.threads = ranks;
  auto made = make_objective(spec);
  if (made) return std::move(*made);
  std::fprintf(stderr, "%s\n", made.error().message.c_str());
  std::exit(made.error().exit_status());
}

// The objective's gradient and one fused update, without an actor: the rest is the actors' part.
Contestant no_actors(std::string name, int width, int batch) {
  struct Vectors {
    explicit Vectors(size_t n) : x(n, DType::f32), g(n, DType::f32), v(n, DType::f32) {}
    Buffer x, g, v;
    uint64_t index = 0;
  };
  auto objective = network(1, width, batch);
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

Contestant grapevine(std::string name, int ranks, int width, int batch) {
  auto objective = network(ranks, width, batch);
  return {std::move(name),
          [objective, ranks](uint64_t steps) {
            Settings settings;
            settings.topology = "complete";
            settings.ranks = settings.threads = ranks;
            settings.gradients = steps * static_cast<uint64_t>(ranks);
            settings.sample_s = 0;
            settings.lr = {1e-3, Schedule::constant, 0};
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

void compete(const char* title, int width, int batch, int rounds, double seconds) {
  const Order fast = Order::channels_last;
  std::vector<Contestant> all;
  all.push_back(bare("bare, torch::optim::SGD", 1, width, batch, Update::torch_sgd, fast));
  all.push_back(bare("bare, fused update", 1, width, batch, Update::fused, fast));
  all.push_back(bare("bare, SGD, plain layout", 1, width, batch, Update::torch_sgd, Order::plain));
  all.push_back(no_actors("objective and fused update", width, batch));
  all.push_back(grapevine("Grapevine, 1 rank", 1, width, batch));
  all.push_back(bare("2 bare, torch::optim::SGD", 2, width, batch, Update::torch_sgd, fast));
  all.push_back(bare("2 bare, fused update", 2, width, batch, Update::fused, fast));
  all.push_back(grapevine("Grapevine, 2 ranks", 2, width, batch));
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
  print_ratio(all[4], all[0], 0.97);
  print_ratio(all[4], all[1], 0.95);
  print_ratio(all[4], all[3], 0);
  print_ratio(all[4], all[2], width == 32 ? 1.4 : 0);
  print_ratio(all[7], all[5], 0.95);
  print_ratio(all[7], all[6], 0);
}

}  // namespace
}  // namespace grapevine

int main(int argc, char** argv) {
  grapevine::prepare_heap();
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
  if (rounds < 1 || !(seconds > 0)) {
    std::fprintf(stderr, "usage: training_bench [ROUNDS [SECONDS]], both above 0\n");
    return 2;
  }
  grapevine::compete("cnn-small, batch 16", 16, 16, rounds, seconds);
  grapevine::compete("cnn-big, batch 32", 32, 32, rounds, seconds);
}
