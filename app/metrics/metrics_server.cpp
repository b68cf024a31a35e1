#include "app/metrics/metrics_server.hpp"

#include <fmt/core.h>
#include <httplib.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "app/metrics/metrics_text.hpp"
#include "app/system/ask_node.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {

namespace {

constexpr size_t kThreads = 2;  // of scrapes at once
constexpr int kRefusedStatus = 503;
// However often it is asked, the node is asked at most that often: others may reach the page.
constexpr std::chrono::milliseconds kFresh(100);

}  // namespace

struct MetricsServer::Parts {
  httplib::Server server;
  std::string url;
  std::mutex mutex;
  std::string address, key;  // of the console
  std::mutex asking;         // one thread at a time
  Json status;               // as last told
  std::chrono::steady_clock::time_point told_at;
  std::thread thread;

  void answer(const httplib::Request& request, httplib::Response& response) {
    std::string console, secret;
    {
      const std::lock_guard lock(mutex);
      console = address;
      secret = key;
    }
    const auto refuse = [&response](const std::string& why) {
      response.status = kRefusedStatus;
      response.set_content(why + "\n", "text/plain");
    };
    if (console.empty()) return refuse("the node does not listen yet");
    const std::lock_guard one(asking);
    const auto now = std::chrono::steady_clock::now();
    if (!status.is_object() || now - told_at > kFresh) {
      const auto told = ask_node(console, secret, {ConsoleVerb::status, {}});
      if (!told) return refuse(told.error().message);
      status = json_of_text<Json>(*told);
      if (!status.is_object()) return refuse("the node's answer is no status");
      told_at = std::chrono::steady_clock::now();
    }
    const MetricsFormat format = metrics_format(request.get_header_value("Accept"));
    response.set_content(metrics_text(status, format), content_type(format));
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
        "metrics is \"{}\", accepted: a port, then of loopback, or an address of this machine with "
        "one, as 10.0.0.5:9400",
        where));
  auto parts = std::make_unique<Parts>();
  httplib::Server& server = parts->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // By itself the library lets two processes share a port.
  server.set_socket_options([](int socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server.Get("/metrics",
             [parts = parts.get()](const httplib::Request& request, httplib::Response& response) {
               parts->answer(request, response);
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
    std::this_thread::yield();  // stop() before the loop begins would be forgotten
  parts_->server.stop();
  parts_->thread.join();
}

const std::string& MetricsServer::url() const { return parts_->url; }

void MetricsServer::ask(const std::string& address, const std::string& key) {
  const std::lock_guard lock(parts_->mutex);
  parts_->address = address;
  parts_->key = key;
}

}  // namespace grapevine
