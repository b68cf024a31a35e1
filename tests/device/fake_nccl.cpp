#include "tests/device/fake_nccl.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace grapevine::testing {

NcclCalls FakeNccl::calls() {
  NcclCalls out;
  out.init = [this](const NcclId& id, int rank, NcclComm& comm) { return begin(id, rank, comm); };
  out.poll = [this](NcclComm comm) { return used(comm, "polled").state; };
  out.exchange = [this](NcclComm comm, const NcclTransfer& t) { return transfer(comm, t); };
  out.abort = [this](NcclComm comm, std::function<void()> ended) {
    give_up(comm, std::move(ended), false);
  };
  out.destroy = [this](NcclComm comm, std::function<void()> ended) {
    give_up(comm, std::move(ended), true);
  };
  return out;
}

FakeNccl::Comm& FakeNccl::used(NcclComm comm, const char* call) {
  Comm& c = comms.at(reinterpret_cast<size_t>(comm) - 1);
  if (c.is_given_up)
    world_.judge().find(std::string("NCCL: ") + call + " after it has been given up");
  return c;
}

NcclAnswer FakeNccl::begin(const NcclId&, int, NcclComm& out) {
  for (const Comm& c : comms)
    if (c.flies) world_.judge().find("NCCL: it allocates while an exchange is under way");
  if (!makes_comm) return init;
  comms.emplace_back();
  out = reinterpret_cast<NcclComm>(comms.size());
  return init;
}

/// The received payload is the number of the exchange.
NcclAnswer FakeNccl::transfer(NcclComm comm, const NcclTransfer& t) {
  const float read = t.sent_bytes > 0 ? *static_cast<const float*>(t.sent) : 0;
  std::fill_n(static_cast<float*>(t.received), t.received_bytes / sizeof(float),
              static_cast<float>(t.number) + 0 * read);
  last = t;
  Comm& known = comms.at(reinterpret_cast<size_t>(comm) - 1);
  if (t.number == known.number) return known.answer;  // the same pass, once more
  Comm& c = used(comm, "asked to exchange");
  c.number = t.number;
  c.answer = c.state;
  if (c.state != NcclAnswer::success && c.state != NcclAnswer::in_progress) return c.state;
  if (c.state == NcclAnswer::in_progress || c.flies)
    world_.judge().find("NCCL: an exchange before the last call has ended");
  for (const Comm& other : comms) {
    if (other.connects && !other.is_given_up)
      world_.judge().find("NCCL: an exchange while it allocates");
    if (other.flies && !other.is_given_up) world_.judge().find("NCCL: two exchanges of one device");
  }
  device_.hold(c.stream);
  c.flies = true;
  c.answer = c.state = exchange;
  return exchange;
}

void FakeNccl::give_up(NcclComm comm, std::function<void()> ended, bool was_idle) {
  Comm& c = used(comm, "given up");
  if (was_idle && (c.flies || c.state != NcclAnswer::success))
    world_.judge().find("NCCL: destroyed while it is at work");
  c.is_given_up = true;
  c.was_idle = was_idle;
  c.ended = std::move(ended);
  on_given_up(reinterpret_cast<size_t>(comm) - 1);
}

void FakeNccl::connect(size_t comm) {
  comms[comm].connects = false;
  queue(comm);
}

void FakeNccl::queue(size_t comm) {
  if (comms[comm].state == NcclAnswer::in_progress) comms[comm].state = NcclAnswer::success;
}

void FakeNccl::answer(size_t comm) {
  const bool has_ended = comms[comm].is_given_up && !comms[comm].ended;
  if (has_ended || comms[comm].state == NcclAnswer::in_progress) return;  // there is no kernel
  comms[comm].flies = false;
  device_.let_go(comms[comm].stream);
}

void FakeNccl::end(size_t comm) {
  if (!comms[comm].is_given_up || !comms[comm].ended) return;
  comms[comm].flies = false;
  device_.let_go(comms[comm].stream);
  std::exchange(comms[comm].ended, {})();
}

}  // namespace grapevine::testing
