#include "app/metrics/metrics_server.hpp"

#include <fmt/core.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "app/metrics/metrics_text.hpp"
#include "app/metrics/readiness.hpp"
#include "app/system/ask_node.hpp"
#include "kernels/base/caught.hpp"
#include "kernels/base/mutex.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {

namespace {

constexpr size_t kThreads = 8;  // scrapes and probes at the same time
constexpr time_t kSilence_s = 1;  // then a connection is closed: it holds a thread
// Only one request waits for a node that does not answer, so that probes of the process still get
// answers.
constexpr std::chrono::seconds kTurn(1);
constexpr int kRefusedStatus = 503;
// The node is asked at most this often, however many requests come: others may reach the page.
constexpr std::chrono::milliseconds kFresh(100);

// The threads that answer requests. The newest connection is answered first: of many idle ones
// each holds a thread for kSilence_s, and a probe waits for one of them, not for all. The library's
// own pool ends the process if a thread cannot start.
class Answering final : public httplib::TaskQueue {
 public:
  Answering() {
    try {
      while (threads_.size() < kThreads)
        threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      end();
      throw;
    }
  }
  ~Answering() override { end(); }

  void enqueue(std::function<void()> task) override {
    {
      const Lock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }
  void shutdown() override { end(); }

 private:
  void end() {  // once all requests are answered
    {
      const Lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : std::exchange(threads_, {}))
      thread.join();
  }

  void work() {
    Lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this]() GV_REQUIRES(mutex_) { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const auto task = std::move(tasks_.back());
      tasks_.pop_back();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> tasks_ GV_GUARDED_BY(mutex_);
  bool ends_ GV_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

struct MetricsServer::Parts {
  httplib::Server server;
  std::string url;
  Mutex mutex;
  std::string address GV_GUARDED_BY(mutex), key GV_GUARDED_BY(mutex);  // of the console
  std::atomic<bool> expects_others = false;
  bool is_asking GV_GUARDED_BY(mutex) = false;  // one thread at a time asks the node
  std::condition_variable answered;
  Json status GV_GUARDED_BY(mutex);  // the last answer
  std::chrono::steady_clock::time_point told_at GV_GUARDED_BY(mutex);
  std::thread thread;

  /// The status, at most kFresh old. Errors: the node does not listen yet, or does not answer.
  Result<Json> status_of_now() {
    Lock lock(mutex);
    if (address.empty()) return world_error("the node does not listen yet");
    const auto is_free = [this]() GV_REQUIRES(mutex) { return !is_asking; };
    if (!answered.wait_for(lock, kTurn, is_free))
      return world_error("the node has not answered the last question yet");
    const bool is_fresh = std::chrono::steady_clock::now() - told_at <= kFresh;
    if (status.is_object() && is_fresh) return status;
    const std::string console = address, secret = key;
    is_asking = true;
    lock.unlock();
    const auto told = caught([&] { return ask_node(console, secret, {ConsoleVerb::status, {}}); });
    lock.lock();
    is_asking = false;
    answered.notify_all();
    if (!told) return told.error();
    status = json_of_text<Json>(*told);
    if (!status.is_object()) return world_error("the node's answer is no status");
    told_at = std::chrono::steady_clock::now();
    return status;
  }

  void tell_metrics(const httplib::Request& request, httplib::Response& response) {
    const auto now = status_of_now();
    if (!now) return refuse(response, now.error().message);
    const MetricsFormat format = metrics_format(request.get_header_value("Accept"));
    response.set_content(metrics_text(*now, format), content_type(format));
  }

  void tell_readiness(httplib::Response& response) {
    const auto now = status_of_now();
    const std::string why = now ? why_not_ready(*now, expects_others) : now.error().message;
    if (!why.empty()) return refuse(response, why);
    response.set_content("ready\n", "text/plain");
  }

  static void refuse(httplib::Response& response, const std::string& why) {
    response.status = kRefusedStatus;
    response.set_content(why + "\n", "text/plain");
  }
};

MetricsServer::MetricsServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const std::string& where) {
  const size_t colon = where.rfind(':');
  std::string host = colon == where.npos ? "127.0.0.1" : where.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto port =
      number_of<int>(std::string_view(where).substr(colon == where.npos ? 0 : colon + 1));
  if (!port || *port < 0 || *port > 65535 || host.empty())
    return user_error(fmt::format(
        "metrics is \"{}\", accepted: a port (on loopback), or an address of this machine and a "
        "port, for instance 10.0.0.5:9400",
        where));
  auto parts = std::make_unique<Parts>();
  httplib::Server& server = parts->server;
  auto answering = std::make_shared<std::unique_ptr<Answering>>(std::make_unique<Answering>());
  server.new_task_queue = [answering] { return answering->release(); };  // it is taken once
  server.set_keep_alive_timeout(kSilence_s);
  server.set_read_timeout(kSilence_s);
  server.set_write_timeout(kSilence_s);
  // By default the library lets two processes share a port.
  server.set_socket_options([](int socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  using Request = httplib::Request;
  using Response = httplib::Response;
  server.Get("/metrics", [parts = parts.get()](const Request& request, Response& response) {
    parts->tell_metrics(request, response);
  });
  server.Get("/healthz", [](const Request&, Response& response) {
    response.set_content("the process serves\n", "text/plain");
  });
  server.Get("/readyz", [parts = parts.get()](const Request&, Response& response) {
    parts->tell_readiness(response);
  });
  const int bound = *port == 0 ? server.bind_to_any_port(host.c_str())
                    : server.bind_to_port(host.c_str(), *port) ? *port
                                                               : -1;
  if (bound < 0)
    return world_error(
        fmt::format("metrics is \"{}\", where nothing can listen: it is taken, or "
                    "not an address of this machine",
                    where));
  const bool six = host.find(':') != host.npos;
  parts->url = fmt::format("http://{}:{}/metrics", six ? "[" + host + "]" : host, bound);
  parts->thread = std::thread([parts = parts.get()] { parts->server.listen_after_bind(); });
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(parts)));
}

MetricsServer::~MetricsServer() {
  while (!parts_->server.is_running() && parts_->thread.joinable())
    std::this_thread::yield();  // a stop() before the loop begins would be lost
  parts_->server.stop();
  parts_->thread.join();
}

const std::string& MetricsServer::url() const { return parts_->url; }

void MetricsServer::ask(const std::string& address, const std::string& key, bool expects_others) {
  const Lock lock(parts_->mutex);
  parts_->expects_others = expects_others;
  parts_->address = address;
  parts_->key = key;
}

}  // namespace grapevine
