#include "actors/guests/guest_session.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "actors/guests/script_layout.hpp"
#include "actors/mail/ask_actor.hpp"
#include "actors/rank/work_pool.hpp"
#include "models/files/file.hpp"

namespace grapevine {

namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

constexpr auto kPoll = 50ms;       // between two checks whether a waiting script has gone
constexpr int kPollsBetween = 20;  // two `wait` records
constexpr int kOfAll = -1;         // the average statistics
constexpr double kNoPool = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kMostUnwritten = 16 << 20;  // bytes of a starting point, which are zeros
constexpr uint64_t kMostHeld = 1'000'000;      // optimizer steps in one step
// A script tells its optimizer steps a few times a second, or after each one that takes longer. The
// end of the run waits this long for its step, and so many of its usual optimizer steps longer.
constexpr double kAwaited_s = 1, kAwaited = 3;

}  // namespace

GuestSession::~GuestSession() {
  leave_seat();
  if (place_ < 0) return;
  served();
  const Lock lock(server_.mutex_);
  --server_.sessions_;
  server_.changed_.notify_all();
}

/// The script has the final mean, or will never have it.
void GuestSession::served() {
  const Lock lock(server_.mutex_);
  if (std::exchange(counts_, false)) --server_.unserved_;
  server_.changed_.notify_all();
}

/// From here on another script may take the place. The session counts until its thread ends.
void GuestSession::leave_seat() {
  visitor_.reset();
  if (place_ < 0 || std::exchange(has_left_seat_, true)) return;
  server_.table_->set_seat(place_, nullptr);
  bool tells = false;
  {
    const Lock lock(server_.mutex_);
    if (server_.run_.pool) server_.run_.pool->await_no_longer(seat_.get());
    place().taken = false;
    place().status.process = 0;
    if (founds_ && server_.stage_ == GuestServer::Stage::filling) {
      server_.stage_ = GuestServer::Stage::empty;
      server_.layout_.reset();
      server_.gradients_ = 0;
    }
    tells = server_.stage_ == GuestServer::Stage::running;
    server_.changed_.notify_all();
  }
  if (tells)
    server_.say(
        fmt::format("the script of rank {} has left, after {} steps", record({}).rank, number_));
}

void GuestSession::run() {
  Question question;
  if (!script_.first(question)) return;
  if (question.record.kind != GuestKind::join)
    return void(script_.refuse("the first request must be a join"));
  if (!join(question)) return;
  while (script_.next(question))
    if (!handle(question)) return;
}

bool GuestSession::handle(Question& question) {
  const GuestKind kind = question.record.kind;
  if (kind == GuestKind::leave) {
    const GuestRecord bye = record(GuestKind::bye);
    leave_seat();  // before the answer, after which it may join again at once
    return script_.answer(bye), false;
  }
  if (question.record.exchanges > kMostHeld)
    return script_.refuse(fmt::format("a step of {} optimizer steps, accepted: at most {}",
                                      question.record.exchanges, kMostHeld));
  if (founds_ && kind == GuestKind::step) return found(question);
  if (founds_)
    return script_.refuse("the run has not begun, accepted: a step with the starting point");
  switch (kind) {
    case GuestKind::step: return step(question);
    case GuestKind::keep: return keep(question);
    case GuestKind::kept: return kept();
    case GuestKind::mean: return mean();
    case GuestKind::finish: return finish();
    case GuestKind::checkpoint: return checkpoint();
    case GuestKind::share: return share(question);
    case GuestKind::report: return report(question);
    default: return script_.refuse("this script has joined already");
  }
}

GuestRecord GuestSession::record(GuestKind kind) const {
  GuestRecord r;
  r.kind = kind;
  r.number = number_;
  r.exchanges = exchanges_;
  const Lock lock(server_.mutex_);
  const GuestTable::RankWorker server = server_.table_->worker_at(std::max(0, place_));
  r.rank =
      static_cast<uint32_t>(server.rank >= 0 ? server.rank : server_.options_.first_rank + place_);
  r.ranks = static_cast<uint32_t>(std::max(server_.epoch_.ranks, server_.options_.places));
  r.epoch = server_.epoch_.epoch;
  if (server_.stage_ == GuestServer::Stage::over) r.flags = kGuestEnd | kGuestOver;
  if (server_.run_.counters != nullptr)  // the mean of the ranks here, times all ranks
    r.run_steps = server_.run_.counters->gradients.load(std::memory_order_relaxed) * r.ranks /
                  static_cast<uint64_t>(server_.options_.places);
  const WorkPool* const pool = server_.run_.pool.get();
  const uint64_t wanted = pool != nullptr ? pool->wanted() : server_.run_.gradients;
  if (pool != nullptr && wanted > 0) r.run_steps = pool->taken(server_.run_.clock->now());
  if (kind == GuestKind::welcome || kind == GuestKind::front) r.count = wanted;
  return r;
}

/// REQUIRES: it has a place.
GuestServer::Place& GuestSession::place() { return server_.places_[static_cast<size_t>(place_)]; }

GuestServer::Run GuestSession::run_here() const {
  const Lock lock(server_.mutex_);
  return server_.run_;
}

bool GuestSession::over() const {
  const Lock lock(server_.mutex_);
  return server_.stage_ == GuestServer::Stage::over;
}

/// Names the ranks that a finished script waits for: ranks here that may still take steps, or those
/// of other nodes.
GuestRecord GuestSession::wait_record() const {
  GuestRecord wait = record(GuestKind::wait);
  if (!finishes_) return wait;
  wait.rank = kAnyGuestRank;
  wait.ranks = 0;
  const Lock lock(server_.mutex_);
  for (size_t k = 0; k < server_.places_.size(); ++k) {
    const GuestServer::Place& place = server_.places_[k];
    if (place.status.done || wait.ranks++ > 0) continue;
    const int rank = server_.table_->worker_at(static_cast<int>(k)).rank;
    wait.rank = static_cast<uint32_t>(std::max(0, rank));
    if (!place.taken) wait.flags |= kGuestEmpty;
  }
  if (wait.ranks == 0)
    wait.ranks = static_cast<uint32_t>(std::max(0, server_.epoch_.ranks - server_.options_.places));
  return wait;
}

template <class There>
bool GuestSession::await(const There& there) {
  const auto start = GuestServer::Clock::now();
  for (int look = 1; !there(); ++look) {
    if (script_.gone()) return false;
    if (look % kPollsBetween != 0) continue;
    GuestRecord wait = wait_record();
    wait.value = Seconds(GuestServer::Clock::now() - start).count();
    if (!script_.answer(wait)) return false;
  }
  return true;
}

// --- join

bool GuestSession::join(const Question& question) {
  auto layout = read_guest_layout(question.text);
  if (!layout) return script_.refuse(layout.error().message);
  if (!claim(*layout, question.record)) return false;
  layout_ = std::move(*layout);
  if (const Status room = founds_ ? has_room(layout_) : Done{}; !room)
    return script_.refuse(room.error().message);
  using Pages = SharedMemory::Pages;
  memory_ = SharedMemory::make(layout_.bytes(), SharedMemory::Writers::all,
                               founds_ ? Pages::as_written : Pages::now);
  if (memory_ == nullptr) return script_.refuse("there is no memory for the front");
  if (!founds_) make_seat();
  if (!founds_ && !take_seat()) return false;
  GuestRecord welcome = record(GuestKind::welcome);
  if (!founds_) welcome.flags |= kGuestResumed;
  if (!founds_ && show_aside()) welcome.flags |= kGuestAside;
  return script_.answer(welcome, {}, memory_->fd());
}

/// Checks the memory for what the first script announces: its front, base and starting point, and
/// the x of each rank. No page of it is used before the script has filled its front.
Status GuestSession::has_room(const GuestLayout& layout) const {
  const auto copies = static_cast<uint64_t>(3 + server_.options_.places);
  const Status fits = fits_in_memory(copies * layout.bytes());
  if (fits) return fits;
  return world_error(
      fmt::format("a layout of {}, which {}", counted(layout), fits.error().message));
}

void GuestSession::make_seat() {
  answer_ = std::make_shared<Promised<GuestAnswer>>();
  const Vec front(memory_->data(), layout_.trained_elements(), DType::f32);
  seat_ = std::make_shared<GuestSeat>(
      front, memory_, [answer = answer_](const GuestAnswer& a) { answer->keep(a); });
}

/// Takes a place for the script, after the starting point of the first script.
bool GuestSession::claim(const GuestLayout& layout, const GuestRecord& join) {
  std::string refusal;
  const bool here = await([&] {
    Lock lock(server_.mutex_);
    refusal = server_.misfit(layout);
    if (!refusal.empty()) return true;
    if (server_.stage_ == GuestServer::Stage::filling)
      return server_.changed_.wait_for(lock, kPoll), false;
    const auto taken = server_.take_place(layout, join, script_.process());
    if (!taken) return refusal = taken.error().message, true;
    place_ = taken->place;
    founds_ = taken->founds;
    counts_ = true;
    return true;
  });
  if (!refusal.empty()) script_.refuse(refusal);
  return here && refusal.empty();
}

/// The run is over; the script gets its mean.
bool GuestSession::show_mean() {
  std::shared_ptr<const Buffer> mean;
  {
    const Lock lock(server_.mutex_);
    mean = server_.mean_;
    number_ = place().status.steps;
  }
  if (mean == nullptr) return script_.refuse("the run is over");
  scale({}, 1, mean->vec(), seat_->front);
  scale({}, 1, mean->vec(), seat_->base);
  return true;
}

/// Fills the front with the rank's x.
bool GuestSession::take_seat() {
  if (over()) return show_mean();
  seat_->turn = GuestSeat::Turn::rank;
  server_.table_->set_seat(place_, seat_);
  std::optional<GuestAnswer> answered;
  const bool here = await([&] { return (answered = answer_->wait(kPoll)) || over(); });
  if (!here) return false;
  if (!answered) return show_mean();
  begun();  // so that record() has the work of the run
  number_ = answered->steps;
  exchanges_ = answered->exchanges;
  server_.say(fmt::format("a script, process {}, computes the steps of rank {}", script_.process(),
                          server_.table_->worker_at(place_).rank));
  return true;
}

/// The first script has filled its front. The run begins there.
bool GuestSession::found(const Question& question) {
  if (question.record.number != 0)
    return script_.refuse(fmt::format("step {} before the starting point, accepted: step 0 first",
                                      question.record.number));
  // Copies would use memory for pages that the script never filled.
  if (memory_->bytes() > kMostUnwritten && !memory_->is_filled())
    return script_.refuse(fmt::format(
        "a starting point of {} bytes, of which pages were never written, accepted: all of "
        "them, above {} bytes",
        memory_->bytes(), kMostUnwritten));
  memory_->gather();
  make_seat();
  if (!all_finite({}, seat_->front)) return script_.refuse("the starting point is not finite");
  asked_at_ = GuestServer::Clock::now();
  {
    const Lock lock(server_.mutex_);
    Buffer start(seat_->front.size, DType::f32);
    scale({}, 1, seat_->front, start);
    server_.objective_ =
        objective_of(layout_, std::move(start), read_aside(layout_, memory_->data()));
    server_.stage_ = std::max(server_.stage_, GuestServer::Stage::running);
    founds_ = false;
    server_.changed_.notify_all();
  }
  if (!take_seat()) return false;
  return give_front(0);
}

// --- steps

/// Keeps the aside tensors of the step that the rank is about to take.
void GuestSession::remember_aside() {
  if (layout_.aside_elements() == 0) return;
  const Buffer aside = read_aside(layout_, memory_->data());
  const Lock lock(server_.mutex_);
  if (server_.run_.system == nullptr) return;
  const int rank = server_.table_->worker_at(place_).rank;
  server_.objective_->set_statistics(rank % server_.run_.ranks, number_ + 1, aside);
}

void GuestSession::remember_share(const GuestRecord& step) {
  const Lock lock(server_.mutex_);
  GuestShare& share = place().share;
  if (step.exchanges > 1) share.local_steps += step.exchanges - 1;
  if (step.ranks == 0) return;
  share.key = step.ranks;
  share.passes = step.run_steps;
  share.samples = step.count;
}

/// Writes the aside tensors of an earlier script of the rank. False: no script has taken a step.
bool GuestSession::show_aside() {
  Buffer aside(layout_.aside_elements(), aside_type(layout_));
  if (aside.size() == 0) return false;
  {
    const Lock lock(server_.mutex_);
    const int rank = server_.table_->worker_at(place_).rank;
    const int shard = server_.run_.ranks > 0 ? rank % server_.run_.ranks : rank;
    if (!server_.objective_->has_statistics(shard)) return false;
    server_.objective_->read_statistics(shard, aside);
  }
  write_aside(layout_, aside, memory_->data());
  return true;
}

/// Waits until the server has the run: a worker may serve a seat shortly before that. False: the
/// script has gone, or the run is over.
bool GuestSession::begun() {
  const bool here = await([&] {
    Lock lock(server_.mutex_);
    return server_.changed_.wait_for(lock, kPoll, [&]() GV_REQUIRES(server_.mutex_) {
      return server_.run_.system != nullptr || server_.stage_ == GuestServer::Stage::over;
    });
  });
  return here && !over();
}

std::optional<GuestAnswer> GuestSession::ask(const GuestRecord& step) {
  if (!visitor_) {
    if (!begun()) return std::nullopt;
    const Lock lock(server_.mutex_);
    visitor_.emplace(*server_.run_.system);
    visitor_->set_computing(false);  // it does not delay timers while it waits for a script
  }
  seat_->steps = true;
  seat_->loss = step.value;
  seat_->optimizer_steps = std::max<uint64_t>(1, step.exchanges);
  seat_->turn = GuestSeat::Turn::rank;
  // After the turn has passed: a worker that serves the seat from now on reads the request in it.
  if (const GuestWorkerActor worker = server_.table_->worker_at(place_).worker)
    visitor_->deliver(caf::actor_cast<caf::strong_actor_ptr>(worker),
                      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, Computed{}));
  std::optional<GuestAnswer> answered;
  await([&] { return (answered = answer_->wait(kPoll)) || over(); });
  return answered;
}

bool GuestSession::step(const Question& question) {
  asked_at_ = GuestServer::Clock::now();
  const uint64_t asked = question.record.number;
  if (asked > number_ + 1)
    return script_.refuse(
        fmt::format("step {}, accepted: {}, the next of the rank", asked, number_ + 1));
  uint16_t flags = 0;
  if (asked == number_ + 1 && !over()) {
    remember_aside();
    remember_share(question.record);
    const auto answered = ask(question.record);
    if (!answered && !over()) return false;
    if (answered) {
      number_ = answered->steps;
      exchanges_ = answered->exchanges;
      if (answered->end) flags |= kGuestEnd;
      if (std::exchange(seat_->finite, 1) != 1) flags |= kGuestNotFinite;
    }
  }
  return give_front(flags);
}

/// Answers a step, which began at asked_at_.
bool GuestSession::give_front(uint16_t flags) {
  GuestRecord front = record(GuestKind::front);
  front.flags |= flags;
  const auto now = GuestServer::Clock::now();
  front.value = Seconds(now - asked_at_).count();
  {
    const Lock lock(server_.mutex_);
    place().status.steps = number_;
    place().status.done = place().status.done || (front.flags & kGuestEnd) != 0;
    place().answered_at = now;
  }
  return script_.answer(front);
}

// --- blobs

bool GuestSession::keep(Question& question) {
  struct stat about {};
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  const int fd = question.descriptor.fd();
  const bool sealed = fd >= 0 && (::fcntl(fd, F_GET_SEALS) & kSealed) == kSealed &&
                      ::fcntl(fd, F_GET_SEALS) >= 0 && ::fstat(fd, &about) == 0;
  if (!sealed || static_cast<uint64_t>(about.st_size) != question.record.count)
    return script_.refuse(
        "keep without its memory, accepted: a memfd of the size that is told, sealed "
        "against shrinking, growing and writing");
  constexpr blkcnt_t kBlock = 512;  // the unit of st_blocks on every file system
  // A copy would use memory for pages that the script never filled.
  if (about.st_blocks * kBlock < about.st_size)
    return script_.refuse(
        fmt::format("keep of {} bytes, of which {} are written, accepted: memory that is filled",
                    about.st_size, about.st_blocks * kBlock));
  GuestRecord answer = record(GuestKind::kept);
  answer.number = question.record.number;
  answer.count = question.record.count;
  {
    const Lock lock(server_.mutex_);
    place().blob = std::move(question.descriptor);
    place().blob_number = question.record.number;
    place().blob_bytes = question.record.count;
  }
  return script_.answer(answer);
}

bool GuestSession::kept() {
  GuestRecord answer = record(GuestKind::kept);
  Descriptor blob;
  {
    const Lock lock(server_.mutex_);
    answer.number = place().blob_number;
    answer.count = place().blob_bytes;
    if (place().blob) blob = Descriptor(::fcntl(place().blob.fd(), F_DUPFD_CLOEXEC, 0));
  }
  if (!blob) answer.count = 0;
  return script_.answer(answer, {}, blob.fd());
}

/// Records all ranks of the node, with the objects that their scripts have stored.
bool GuestSession::checkpoint() {
  if (!begun() && !over()) return false;
  const GuestServer::Run run = run_here();
  const std::string is_over = fmt::format("{}: the run is over", kNoCheckpoint);
  std::optional<std::string> told;
  if (!over() && !run.checkpointer) {
    told = fmt::format("{}: this node has no run directory", kNoCheckpoint);
  } else if (!over()) {
    const auto promise = ask_actor(*run.system, run.checkpointer, SaveNow{}, is_over);
    if (!await([&] { return (told = promise->wait(kPoll)) || over(); })) return false;
  }
  GuestRecord answer = record(GuestKind::saved);
  const std::string line = told.value_or(is_over);
  if (line.starts_with(kNoCheckpoint)) answer.flags |= kGuestNotSaved;
  return script_.answer(answer, line);
}

/// Adds to the pool what the script has taken of its next step. Whether the pool has enough, so
/// that the script should hand in the step as it is.
bool GuestSession::count_unfinished(WorkPool& pool, uint64_t taken) {
  const double now = server_.run_.clock->now();
  const Seconds since = GuestServer::Clock::now() - place().answered_at;
  if (seat_->turn != GuestSeat::Turn::script) return false;
  pool.took(seat_->uncounted(taken));
  pool.await(seat_.get(), now + kAwaited_s + kAwaited * since.count() / static_cast<double>(taken));
  return pool.is_enough(now);
}

/// Answers how far the rank is in its data, how far the run is, and whether the script has changed
/// its parameters since the last answer. The script may tell how many gradients its data has.
bool GuestSession::share(const Question& question) {
  GuestRecord answer = record(GuestKind::share);
  if (question.record.number > GuestServer::kMostWork)
    return script_.refuse(fmt::format("data of {} gradients, accepted: at most {}",
                                      question.record.number, GuestServer::kMostWork));
  {
    const Lock lock(server_.mutex_);
    WorkPool* const pool = server_.run_.pool.get();
    if (pool != nullptr) pool->expect(question.record.number);
    if (pool != nullptr && question.record.exchanges > 0 && !place().status.done &&
        count_unfinished(*pool, question.record.exchanges))
      answer.flags |= kGuestEnd;
    answer.number = pool != nullptr ? pool->wanted() : server_.run_.gradients;
    answer.value = pool != nullptr ? static_cast<double>(pool->told()) : kNoPool;
    const GuestShare& share = place().share;
    answer.ranks = share.key;
    answer.run_steps = share.passes;
    answer.count = share.samples;
    if (server_.run_.on_device) return script_.answer(answer);
  }
  const ConstVec front = seat_->front, base = seat_->base.vec();
  if (std::memcmp(front.data, base.data, front.bytes()) != 0) answer.flags |= kGuestMoved;
  return script_.answer(answer);
}

/// The node's status has the last value of each name, and no values of earlier scripts.
bool GuestSession::report(const Question& question) {
  const auto told = read_guest_report(question.text);
  if (!told) return script_.refuse(told.error().message);
  size_t names = told->size();
  {
    const Lock lock(server_.mutex_);
    GuestServer::Place& at = place();
    if (!std::exchange(reports_, true)) at.status.measured.clear();
    for (const auto& [name, _] : at.status.measured)
      names += !told->contains(name);
    for (const auto& [name, value] : *told)
      if (names <= kGuestMeasures) at.status.measured[name] = {value, number_, ++at.reports};
  }
  if (names > kGuestMeasures)
    return script_.refuse(fmt::format("{} names reported by one script, accepted: at most {}",
                                      names, kGuestMeasures));
  return script_.answer(record(GuestKind::report));
}

// --- means

/// `aside` is empty if no rank has its own: the mean then gets the aside tensors of the start.
bool GuestSession::send_mean(ConstVec mean, ConstVec aside, int ranks) {
  auto memory = SharedMemory::make(layout_.bytes());
  if (memory == nullptr) return script_.refuse("there is no memory for a mean");
  GV_CHECK(mean.size == layout_.trained_elements());
  std::memcpy(memory->data(), mean.data, mean.bytes());
  const Buffer own = read_aside(layout_, memory_->data());
  Buffer values(own.size(), own.dtype());
  if (aside.size > 0)
    scale({}, 1, aside, values);
  else
    server_.await_objective({})->read_statistics(kOfAll, values);
  GuestObjective::put_masks(own, ranks, values);
  write_aside(layout_, values, memory->data());
  GuestRecord answer = record(GuestKind::mean);
  answer.ranks = static_cast<uint32_t>(ranks);
  answer.count = memory->bytes();
  return script_.answer(answer, {}, memory->fd());
}

bool GuestSession::mean() {
  if (!begun() && !over()) return false;
  const GuestServer::Run run = run_here();
  MeanResult result;
  const auto ask = [&] { return ask_actor(*run.system, run.cluster, WantMean{}, MeanResult{}); };
  auto promise = over() ? nullptr : ask();
  const bool here = await([&] {
    if (over()) return true;
    auto came = promise->wait(kPoll);
    if (!came) return false;
    result = std::move(*came);
    if (result.mean != nullptr) return true;
    Lock lock(server_.mutex_);  // the ranks here are not in the graph yet
    server_.changed_.wait_for(lock, kPoll);
    promise = ask();
    return false;
  });
  if (!here) return false;
  if (result.mean == nullptr) return finish();
  const std::vector<Buffer>& vectors = result.mean->vectors;
  const bool has_aside = vectors.size() > 1 && result.mean->ranks_in[1] > 0;
  return send_mean(vectors[0].vec(), has_aside ? vectors[1].vec() : ConstVec(), result.mean->ranks);
}

/// The rank has taken its gradients. Sends the final mean.
bool GuestSession::finish() {
  finishes_ = true;
  if (!over()) server_.give_up(place_);
  const bool here = await([&] {
    Lock lock(server_.mutex_);
    return server_.changed_.wait_for(lock, kPoll, [&]() GV_REQUIRES(server_.mutex_) {
      return server_.stage_ == GuestServer::Stage::over;
    });
  });
  if (!here) return false;
  std::shared_ptr<const Buffer> mean, aside;
  int ranks = 0;
  {
    const Lock lock(server_.mutex_);
    mean = server_.mean_;
    aside = server_.mean_aside_;
    ranks = server_.ranks_in_mean_;
  }
  if (mean == nullptr) return script_.refuse("the run has ended without a mean");
  const bool sent = send_mean(mean->vec(), aside ? aside->vec() : ConstVec(), ranks);
  served();
  return sent;
}

}  // namespace grapevine
