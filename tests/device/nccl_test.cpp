// NCCL itself, as far as one machine can tell. Without it, or without a GPU, the sentences say so.
#include "kernels/gpu/nccl.hpp"

#include <chrono>
#include <deque>
#include <mutex>

#include "kernels/gpu/cuda_device.hpp"
#include "tests/eventually.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;

namespace {

/// Null where there is none, which is said.
std::unique_ptr<Nccl> nccl_here() {
  auto found = load_nccl(0);
  if (found) return std::make_unique<Nccl>(*std::move(found));
  CHECK(found.error().message.find("no NCCL: ") == 0);
  CHECK(found.error().message.find('\n') == std::string::npos);
  test::skipped(found.error().message);
  return nullptr;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Messages from any thread, done on this one.
class Mail {
 public:
  void post(std::function<void()> what) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(what));
  }
  void handle() {
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
      const std::function<void()> what = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      what();
      lock.lock();
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace

TEST_CASE("NCCL is found when it is asked for, and without a GPU it begins nothing") {
  const auto nccl = nccl_here();
  if (!nccl) return;
  CHECK(nccl->version >= 21400);
  if (cuda_device_count() > 0) return;
  NcclComm comm = nullptr;
  CHECK(nccl->calls.init({}, 0, comm) == NcclAnswer::unhandled_cuda_error);
  CHECK(comm == nullptr);
}

TEST_CASE("an edge of NCCL whose other end never comes is given up, and the device goes on") {
  if (cuda_device_count() == 0) return test::skipped("no CUDA device");
  const auto nccl = nccl_here();
  if (!nccl) return;
  const auto device = open_cuda_device(0);
  REQUIRE(device);
  const Result<NcclId> id = nccl->make_id();
  REQUIRE(id);
  CHECK(*id != *nccl->make_id());
  const auto mail = std::make_shared<Mail>();
  Fences fences(**device);
  NcclOptions options;
  options.connect_s = 1;
  NcclEdges edges(
      **device, fences, nccl->calls,
      [mail](std::function<void()> what) { mail->post(std::move(what)); }, options);
  REQUIRE(edges.start() == Fate::ok);
  std::string reason;
  const auto tell = [&](const NcclNews& news) { reason = news.reason; };
  const auto edge = edges.connect(*id, 0, tell, now_s());
  REQUIRE(edge);
  constexpr std::chrono::seconds kPatience{60};
  CHECK(
      eventually([&] { return edge->poll(now_s()), mail->handle(), !reason.empty(); }, kPatience));
  CHECK(reason == "the other end does not come");
  CHECK(eventually([&] { return mail->handle(), edges.edges() == 0; }, kPatience));
  Block block;
  REQUIRE((*device)->allocate(1 << 20, Block::Kind::device, block) == Fate::ok);
  CHECK((*device)->free(block) == Fate::ok);
}
