// Ways in which the host learns that an event has happened, and the cost of calls and bells.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"
#include "tests/bench/gpu_facts/work.hpp"

namespace grapevine::facts {
namespace {

/// A function of the host rings it, and a thread waits for it.
class Bell {
 public:
  void ring_behind(cudaStream_t stream) {
    must(cudaLaunchHostFunc(
        stream, [](void* me) { static_cast<Bell*>(me)->ring(); }, this));
  }
  void wait() {
    std::unique_lock lock(mutex_);
    rung_.wait(lock, [this] { return is_rung_; });
    is_rung_ = false;
  }

 private:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      is_rung_ = true;
    }
    rung_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable rung_;
  bool is_rung_ = false;
};

constexpr double kMicro = 1e6;

}  // namespace

/// Some 100 us of work, and how much later the host knows, the launch of the work included.
void ask_learn() {
  constexpr int kRounds = 200;
  constexpr double kWork_s = 100e-6, kMost_s = 50e-6;
  const cudaStream_t stream = make_stream(), twin = make_stream();
  const cudaEvent_t event = make_event();
  const cudaEvent_t blocking = make_event(cudaEventDisableTiming | cudaEventBlockingSync);
  Bell bell;
  const auto after_work = [&](const std::function<void()>& learn) {
    std::vector<double> late;
    for (int k = 0; k < kRounds; ++k) {
      late.push_back(took_s([&] {
                       spin(stream, kWork_s);
                       learn();
                     }) -
                     kWork_s);
    }
    return median(late);
  };
  const auto pending = [&] { return cudaEventQuery(event) == cudaErrorNotReady; };
  const double query = after_work([&] {
    must(cudaEventRecord(event, stream));
    while (pending()) {
    }
  });
  const double napping = after_work([&] {
    must(cudaEventRecord(event, stream));
    while (pending())
      nap(20e-6);
  });
  const double synchronise = after_work([&] {
    must(cudaEventRecord(blocking, stream));
    must(cudaEventSynchronize(blocking));
  });
  const double behind = after_work([&] {
    bell.ring_behind(stream);
    bell.wait();
  });
  const double on_twin = after_work([&] {
    must(cudaEventRecord(event, stream));
    must(cudaStreamWaitEvent(twin, event, 0));
    bell.ring_behind(twin);
    bell.wait();
  });
  judge("learn", on_twin <= kMost_s,
        text("us after 100 us of work: a bell on a twin stream %.1f (50 at most), a host function "
             "in the stream %.1f, a spinning query %.1f, one with naps of 20 us %.1f, a blocking "
             "synchronise %.1f",
             on_twin * kMicro, behind * kMicro, query * kMicro, napping * kMicro,
             synchronise * kMicro));
}

void ask_cost() {
  constexpr int kCalls = 400, kRounds = 5;  // a stream takes some 1,000 before a call waits
  constexpr double kMost_s = 5e-6;
  const cudaStream_t stream = make_stream(), other = make_stream();
  const cudaEvent_t event = make_event();
  const auto per_call = [&](bool behind_work, const std::function<void()>& call) {
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) {
      if (behind_work) {
        spin(stream, 0.02);
        must(cudaEventRecord(event, stream));
      }
      times.push_back(took_s([&] {
                        for (int k = 0; k < kCalls; ++k)
                          call();
                      }) /
                      kCalls);
      must(cudaDeviceSynchronize());
    }
    return median(times);
  };
  const auto query = [&] { static_cast<void>(cudaEventQuery(event)); };
  const double pending = per_call(true, query), done = per_call(false, query);
  const double record = per_call(false, [&] { must(cudaEventRecord(event, stream)); });
  const double wait = per_call(true, [&] { must(cudaStreamWaitEvent(other, event, 0)); });
  const double launch = per_call(false, [&] { nothing(stream); });
  const double host = per_call(false, [&] {
    must(cudaLaunchHostFunc(
        other, [](void*) {}, nullptr));
  });
  const double most = std::max({pending, done, record, wait, launch});
  judge("cost", most <= kMost_s,
        text("us a call (5 at most): query %.2f pending, %.2f done; record %.2f, wait %.2f, launch "
             "%.2f; a host function %.2f",
             pending * kMicro, done * kMicro, record * kMicro, wait * kMicro, launch * kMicro,
             host * kMicro));
}

/// The gap between two kernels that follow each other on a stream. All is queued after work that
/// stands still, so the host's own pace does not count.
void ask_bubbles() {
  constexpr int kKernels = 50;
  const cudaStream_t stream = make_stream(), twin = make_stream();
  const cudaEvent_t event = make_event();
  auto* const flag = static_cast<volatile int*>(pinned_memory(sizeof(int)));
  const auto between = [&](const std::function<void()>& queue) {
    const cudaEvent_t begun = make_event(cudaEventDefault), ended = make_event(cudaEventDefault);
    std::vector<double> times;
    // Once beforehand: a first call may have to wait for the work that stands still below.
    nothing(stream);
    queue();
    must(cudaDeviceSynchronize());
    for (int round = 0; round < 7; ++round) {
      *flag = 0;
      stand_until(stream, const_cast<const int*>(flag));
      must(cudaEventRecord(begun, stream));
      for (int k = 0; k < kKernels; ++k) {
        nothing(stream);
        queue();
      }
      must(cudaEventRecord(ended, stream));
      *flag = 1;
      must(cudaDeviceSynchronize());
      float ms = 0;
      must(cudaEventElapsedTime(&ms, begun, ended));
      times.push_back(1e-3 * static_cast<double>(ms) / kKernels);
    }
    return median(times) * kMicro;
  };
  const auto host_function = [](cudaStream_t where) {
    must(cudaLaunchHostFunc(
        where, [](void*) {}, nullptr));
  };
  const double bare = between([] {});
  const double records = between([&] { must(cudaEventRecord(event, stream)); });
  const double bells = between([&] {
    must(cudaEventRecord(event, stream));
    must(cudaStreamWaitEvent(twin, event, 0));
    host_function(twin);
  });
  const double inside = between([&] { host_function(stream); });
  judge("stream.bubbles", bells <= 1.1 * records + 0.5,
        text("us a kernel: bare %.1f, with an event behind each %.1f, with an event and a bell on "
             "a twin stream %.1f, with a host function in the stream itself %.1f",
             bare, records, bells, inside));
}

}  // namespace grapevine::facts
