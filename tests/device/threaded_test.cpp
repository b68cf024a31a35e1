// The two owners of order_test.cpp on devices of real threads: `./test tsan device` looks whether
// their events order all that they share.
#include "tests/device/threaded.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

#include "kernels/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/deadline.hpp"
#include "tests/device/owner.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

/// Messages from any thread, handled on one.
class Mailbox {
 public:
  void post(std::function<void()> message) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
    }
    came_.notify_one();
  }
  void handle_one() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, test::kDeadline, [this] { return !messages_.empty(); }))
      test::came_too_late("message to an owner");
    const std::function<void()> message = std::move(messages_.front());
    messages_.pop_front();
    lock.unlock();
    message();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::function<void()>> messages_;
};

}  // namespace

TEST_CASE("two owners whose devices are threads compute and exchange all that they should") {
  constexpr uint64_t kGradients = 20, kExchanges = 12;
  constexpr size_t kMostWork = 100000;
  Mailbox mailbox;
  Random random(1, 0, Purpose::test);
  Threaded devices[2] = {Threaded(kMostWork), Threaded(kMostWork)};
  std::vector<std::unique_ptr<Owner>> owners;
  for (size_t me = 0; me < 2; ++me) {
    const Owner::Outside outside{
        [&](std::function<void()> what) { mailbox.post(std::move(what)); },
        [&, me](Parcel parcel) {
          mailbox.post([&, me, parcel = std::move(parcel)] { owners[1 - me]->receive(parcel); });
        },
        [&](size_t n) { return random.below(static_cast<uint32_t>(n)); },
        [](const char*, Where) { return false; }};
    owners.push_back(std::make_unique<Owner>(devices[me], outside, 300, kGradients, kExchanges));
  }
  for (const auto& owner : owners)
    mailbox.post([&] { owner->start(); });
  const auto both = [&](auto&& holds) { return holds(*owners[0]) && holds(*owners[1]); };
  while (!both([](const Owner& o) {
    return o.gradients() == kGradients * Owner::kRanks &&
           o.exchanges() == kExchanges * Owner::kRanks;
  })) {
    mailbox.handle_one();
  }
  for (const auto& owner : owners)
    owner->end();
  while (!both([](const Owner& o) { return o.gone(); }))
    mailbox.handle_one();
  CHECK(both([](const Owner& o) { return o.leases() == 0 && !o.has_failed(); }));
}
