#include "actors/transport/loop.hpp"

#include <kj/debug.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace grapevine {

namespace {

// Silences what KJ would write to standard error, because the caller gets the exception and reports
// it in our words. Threads that KJ starts (to resolve a name) are silent too.
class Quiet final : public kj::ExceptionCallback {
 public:
  void logMessage(kj::LogSeverity severity, const char* file, int line, int depth,
                  kj::String&& text) override {
    if (severity == kj::LogSeverity::FATAL)
      next.logMessage(severity, file, line, depth, kj::mv(text));
  }
  kj::Function<void(kj::Function<void()>)> getThreadInitializer() override {
    return [outer = next.getThreadInitializer()](kj::Function<void()> run) mutable {
      outer([&run] {
        const Quiet quiet;
        run();
      });
    };
  }
};

constexpr kj::Duration kNap = 1 * kj::SECONDS;

// Serves the sockets. If the system refuses the loop's own descriptors, the next turn tries again.
// A loop that is always refused can reach no other process, and ends this one with one line.
class Turns {
 public:
  template <class Work>
  void operator()(const Work& work) {
    KJ_IF_MAYBE (error, kj::runCatchingExceptions(work)) {
      constexpr int kMost = 1000;
      if (++refused_ < kMost) return;
      std::fprintf(stderr, "grapevine: the event loop of the links fails: %s\n",
                   reason_of(*error).c_str());
      std::_Exit(1);
    }
    refused_ = 0;
  }

 private:
  int refused_ = 0;  // turns in a row
};

}  // namespace

Loop::Loop() {
  std::promise<void> ready;
  thread_ = std::thread([this, &ready] { run(ready); });
  try {
    ready.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Loop::~Loop() {
  post(nullptr);  // the signal to stop
  thread_.join();
}

void Loop::Inbox::post(Task task) {
  kj::Own<kj::CrossThreadPromiseFulfiller<void>> wake;
  {
    const Lock lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
    wake = kj::mv(wake_);
  }
  if (wake.get() == nullptr) return;
  // The kernel does not refuse this wake. If it did, the loop would wait at most kNap.
  (void)kj::runCatchingExceptions([&] { wake->fulfill(); });
}

void Loop::call(const Task& task) {
  std::promise<void> done;
  post([&] {
    try {
      task();
    } catch (...) {
      return done.set_exception(std::current_exception());
    }
    done.set_value();
  });
  done.get_future().get();
}

void Loop::run(std::promise<void>& ready) {
  const Quiet quiet;
  std::optional<kj::AsyncIoContext> made;
  KJ_IF_MAYBE (error, kj::runCatchingExceptions([&] { made.emplace(kj::setupAsyncIo()); })) {
    const std::string why = reason_of(*error);
    if (why == std::strerror(EMFILE))
      return ready.set_exception(std::make_exception_ptr(
          std::system_error(EMFILE, std::generic_category(), "no event loop")));
    return ready.set_exception(
        std::make_exception_ptr(std::runtime_error("no event loop: " + why)));
  }
  kj::AsyncIoContext& io = *made;
  io_ = &io;
  // By default a loop with ready events never serves the sockets and the inbox.
  io.waitScope.setBusyPollInterval(8);
  ready.set_value();
  std::vector<Task> batch;
  Turns turn;
  for (;;) {
    batch.clear();
    kj::Promise<void> sleep = nullptr;
    {
      const Lock lock(inbox_->mutex_);
      if (inbox_->tasks_.empty()) {
        auto pair = kj::newPromiseAndCrossThreadFulfiller<void>();
        inbox_->wake_ = kj::mv(pair.fulfiller);
        sleep = kj::mv(pair.promise);
      } else {
        std::swap(batch, inbox_->tasks_);
      }
    }
    if (batch.empty()) {
      turn([&] {  // all work of the sockets happens here
        sleep.exclusiveJoin(timer().afterDelay(kNap)).wait(io.waitScope);
      });
      continue;
    }
    for (Task& task : batch) {
      if (!task) {
        const Lock lock(inbox_->mutex_);
        inbox_->closed_ = true;
        return;
      }
      KJ_IF_MAYBE (error, kj::runCatchingExceptions([&] { task(); })) {
        KJ_LOG(FATAL, "a task of the link loop failed", *error);
      }
    }
    // A full inbox must not starve the sockets.
    turn([&] { timer().afterDelay(0 * kj::NANOSECONDS).wait(io.waitScope); });
  }
}

std::string reason_of(const kj::Exception& error) {
  std::string text = error.getDescription().cStr();
  for (char& c : text)
    if (c < 0x20 || c > 0x7e) c = ' ';
  // Errors of system calls read "connect() failed: why" or "read(fd, ...): why": keep the end.
  if (const size_t colon = text.rfind("): "); colon != text.npos) text = text.substr(colon + 3);
  return text.substr(0, 200);
}

}  // namespace grapevine
