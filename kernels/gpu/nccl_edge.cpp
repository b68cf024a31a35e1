#include "kernels/gpu/nccl_edge.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace grapevine {
namespace {

bool is_failure(NcclAnswer a) { return a != NcclAnswer::success && a != NcclAnswer::in_progress; }

constexpr double kNever = std::numeric_limits<double>::infinity();

void* at(const Lease& slot, size_t bytes) {
  return bytes > 0 ? const_cast<void*>(slot.vec().data) : nullptr;
}

}  // namespace

const char* words(NcclAnswer answer) {
  switch (answer) {
    case NcclAnswer::success: return "success";
    case NcclAnswer::unhandled_cuda_error: return "a CUDA error";
    case NcclAnswer::system_error: return "a system error";
    case NcclAnswer::internal_error: return "an internal error";
    case NcclAnswer::invalid_argument: return "an invalid argument";
    case NcclAnswer::invalid_usage: return "invalid usage";
    case NcclAnswer::remote_error: return "an error of the other end";
    case NcclAnswer::in_progress: return "in progress";
  }
  return "an unknown error";
}

struct NcclEdges::Core {
  Device& device;
  Fences& fences;
  const NcclCalls calls;
  const ToOwner to_owner;
  const NcclOptions options;
  std::vector<Stream> free = {};
  size_t connecting = 0, written_off = 0;
  const NcclEdge::Core* turn = nullptr;  // the edge that has the turn
};

/// Exists until the device and NCCL have released it, possibly longer than its edge.
struct NcclEdge::Core : std::enable_shared_from_this<NcclEdge::Core> {
  enum class State : uint8_t { connecting, ready, queueing, flying, broken };

  Core(std::shared_ptr<NcclEdges::Core> all, Stream stream, int rank,
       std::function<void(NcclNews)> tell)
      : all(std::move(all)), stream(stream), rank(rank), tell(std::move(tell)) {}

  const std::shared_ptr<NcclEdges::Core> all;
  const Stream stream;
  const int rank;
  std::function<void(NcclNews)> tell;  // null: the edge has been dropped
  State state = State::connecting;
  NcclComm comm = nullptr;  // null: there is none, or it was given up
  double deadline_s = kNever, due_s = kNever;
  uint64_t number = 0;  // of the last exchange
  Lease sent, received;

  /// The time to the next poll: short while an exchange is being queued, else only to find errors.
  double next_s() const {
    return state == State::queueing ? all->options.queueing_poll_s : all->options.poll_s;
  }
  bool exchanging() const { return state == State::queueing || state == State::flying; }

  void connect(const NcclId& id, double now_s) {
    ++all->connecting;
    deadline_s = now_s + all->options.connect_s;
    due_s = now_s;
    const NcclAnswer answer = all->calls.init(id, rank, comm);
    if (is_failure(answer)) break_off(words(answer));
  }

  void poll(double now_s) {
    if (state == State::broken) return;
    const NcclAnswer answer = all->calls.poll(comm);
    if (is_failure(answer)) return break_off(words(answer));
    if (state != State::ready && now_s >= deadline_s)
      return break_off(state == State::connecting ? "the other end does not come"
                                                  : "the other end does not answer");
    if (state != State::ready) due_s = now_s + next_s();
    if (answer != NcclAnswer::success) return;
    if (state == State::connecting) {
      --all->connecting;
      state = State::ready;
      deadline_s = due_s = kNever;
      news({NcclNews::Kind::connected});
    } else if (state == State::queueing) {
      watch();
    }
  }

  bool exchange(uint64_t k, Half&& out, Half&& in, double now_s) {
    if (state == State::broken) return false;
    GV_CHECK((all->turn == this && state == State::ready));
    GV_CHECK(k > number);
    GV_CHECK(out.bytes + in.bytes > size_t{0});
    for (const Half* half : {&out, &in})
      GV_CHECK((half->bytes == 0 || half->bytes <= half->slot.vec().bytes()));
    number = k;
    sent = std::move(out.slot);
    received = std::move(in.slot);
    state = State::queueing;
    deadline_s =
        now_s + all->options.patience_s +
        static_cast<double>(std::max(out.bytes, in.bytes)) / all->options.floor_bytes_per_s;
    due_s = now_s + next_s();
    const std::optional<NcclAnswer> answer = queue(out.bytes, in.bytes);
    if (!answer) {
      break_off("the device is lost");
    } else if (is_failure(*answer)) {
      break_off(words(*answer));
    } else if (*answer == NcclAnswer::success) {
      watch();
    }
    return true;
  }

  /// Empty: the device is lost.
  std::optional<NcclAnswer> queue(size_t sent_bytes, size_t received_bytes) {
    if (sent && all->fences.wait(stream, sent.ready()) != Fate::ok) return {};
    const Access both[] = {{at(sent, sent_bytes), sent_bytes, Access::Mode::reads},
                           {at(received, received_bytes), received_bytes, Access::Mode::writes}};
    const auto first = std::make_shared<std::optional<NcclAnswer>>();
    NcclTransfer transfer;
    transfer.number = number;
    transfer.peer = 1 - rank;
    transfer.sent_bytes = sent_bytes;
    transfer.received_bytes = received_bytes;
    const auto body = [calls = &all->calls, keep = all, comm = comm, transfer, first](
                          void* native, void* const* where) {
      NcclTransfer here = transfer;
      here.sent = where[0];
      here.received = where[1];
      here.stream = native;
      const NcclAnswer answer = calls->exchange(comm, here);
      if (!*first) *first = answer;
    };
    if (all->device.launch(stream, both, body) != Fate::ok) return {};
    return *first;
  }

  /// All work is queued: asks to be notified of its end.
  void watch() {
    state = State::flying;
    Fence done;
    if (all->fences.record(stream, done) != Fate::ok) return break_off("the device is lost");
    all->fences.when(done, [me = shared_from_this()](Fate fate) {
      me->all->to_owner([me, fate] { me->seen(fate); });
    });
  }

  void seen(Fate fate) {
    if (state != State::flying) return;  // too late: the state does not change any more
    if (fate != Fate::ok) return break_off("the device is lost");
    state = State::ready;
    deadline_s = due_s = kNever;
    leave_turn();
    sent = {};
    news({NcclNews::Kind::arrived, number, std::exchange(received, {})});
  }

  void leave_turn() {
    if (all->turn == this) all->turn = nullptr;
  }

  void news(NcclNews what) {
    if (!tell) return;
    all->to_owner([me = shared_from_this(), what = std::move(what)] {
      const auto tell = me->tell;  // a copy: the call may drop the edge
      if (tell) tell(what);
    });
  }

  void break_off(const char* reason) {
    news({NcclNews::Kind::broken, exchanging() ? number : 0, {}, reason});
    give_up(all->calls.abort);
  }

  /// The owner drops the edge.
  void drop() {
    tell = {};
    if (state == State::broken) return;
    const bool is_idle = state == State::ready && all->calls.poll(comm) == NcclAnswer::success;
    give_up(is_idle ? all->calls.destroy : all->calls.abort);
  }

  void give_up(const std::function<void(NcclComm, std::function<void()>)>& how) {
    if (state == State::connecting) --all->connecting;
    if (exchanging()) ++all->written_off;
    const bool was_exchanging = exchanging();
    state = State::broken;
    deadline_s = due_s = kNever;
    leave_turn();
    if (comm == nullptr) return put_away(false);
    how(std::exchange(comm, nullptr), [me = shared_from_this(), was_exchanging] {
      me->all->to_owner([me, was_exchanging] { me->let_go(was_exchanging); });
    });
  }

  /// NCCL has ended and has told its kernel to stop, if that was queued.
  void let_go(bool was_exchanging) {
    Fence last;
    if (!was_exchanging || all->fences.record(stream, last) != Fate::ok)
      return put_away(was_exchanging);
    all->fences.when(
        last, [me = shared_from_this()](Fate) { me->all->to_owner([me] { me->put_away(true); }); });
  }

  void put_away(bool was_exchanging) {
    sent = {};
    received = {};
    if (was_exchanging) --all->written_off;
    all->free.push_back(stream);
  }
};

NcclEdge::NcclEdge(std::shared_ptr<Core> core) : core_(std::move(core)) {}
NcclEdge::~NcclEdge() { core_->drop(); }

bool NcclEdge::is_ready() const { return core_->state == Core::State::ready; }
bool NcclEdge::is_broken() const { return core_->state == Core::State::broken; }
Stream NcclEdge::stream() const { return core_->stream; }

bool NcclEdge::take_turn() {
  NcclEdges::Core& all = *core_->all;
  if (!is_ready() || all.connecting > 0 || all.turn != nullptr) return false;
  all.turn = core_.get();
  return true;
}

void NcclEdge::leave_turn() {
  if (!core_->exchanging()) core_->leave_turn();
}

bool NcclEdge::exchange(uint64_t number, Half sent, Half received, double now_s) {
  return core_->exchange(number, std::move(sent), std::move(received), now_s);
}

void NcclEdge::poll(double now_s) { core_->poll(now_s); }
double NcclEdge::due_s() const { return std::min(core_->due_s, core_->deadline_s); }

NcclEdges::NcclEdges(Device& device, Fences& fences, NcclCalls calls, ToOwner to_owner,
                     const NcclOptions& options)
    : core_(std::make_shared<Core>(
          Core{device, fences, std::move(calls), std::move(to_owner), options})) {}
NcclEdges::~NcclEdges() = default;

Fate NcclEdges::start() {
  for (uint32_t k = 0; k < core_->options.most_edges; ++k) {
    Stream stream;
    const Fate fate = core_->fences.make_stream(Fences::Kind::lane, stream);
    if (fate != Fate::ok) return fate;
    core_->free.push_back(stream);
  }
  return Fate::ok;
}

std::unique_ptr<NcclEdge> NcclEdges::connect(const NcclId& id, int rank,
                                             std::function<void(NcclNews)> tell, double now_s) {
  GV_CHECK((rank == 0 || rank == 1));
  if (core_->free.empty() || core_->turn != nullptr || core_->written_off > 0) return nullptr;
  const Stream stream = core_->free.back();
  core_->free.pop_back();
  auto edge = std::make_shared<NcclEdge::Core>(core_, stream, rank, std::move(tell));
  edge->connect(id, now_s);
  return std::unique_ptr<NcclEdge>(new NcclEdge(std::move(edge)));
}

size_t NcclEdges::edges() const { return core_->options.most_edges - core_->free.size(); }
size_t NcclEdges::written_off() const { return core_->written_off; }

}  // namespace grapevine
