#include "actors/guests/guest_visit.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace grapevine {

namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

constexpr auto kPoll = 50ms;       // between two looks whether a script that waits has gone
constexpr int kPollsBetween = 20;  // two `wait`s

std::string counted(const GuestLayout& layout) {
  return fmt::format("{} parameters in {} tensors", layout.trained_elements(),
                     layout.trained.size());
}

std::string shown(const GuestLayout::Tensor& tensor) {
  std::string text = tensor.name + " [";
  for (size_t k = 0; k < tensor.shape.size(); ++k)
    text += (k > 0 ? ", " : "") + std::to_string(tensor.shape[k]);
  return text + "]";
}

/// Where two lists first differ, in words; empty: nowhere.
std::string difference(const std::vector<GuestLayout::Tensor>& ours,
                       const std::vector<GuestLayout::Tensor>& theirs) {
  const size_t both = std::min(ours.size(), theirs.size());
  for (size_t k = 0; k < both; ++k)
    if (!(ours[k] == theirs[k]))
      return fmt::format("{} where this run has {}", shown(theirs[k]), shown(ours[k]));
  if (ours.size() == theirs.size()) return {};
  return ours.size() > theirs.size()
             ? fmt::format("no {}", shown(ours[both]))
             : fmt::format("{}, which is not in this run", shown(theirs[both]));
}

ParameterLayout layout_of(const std::vector<GuestLayout::Tensor>& tensors) {
  ParameterLayout layout(DType::f32);
  for (const GuestLayout::Tensor& tensor : tensors)
    layout.add(tensor.name, tensor.shape, true);
  return layout;
}

}  // namespace

GuestVisit::~GuestVisit() {
  stand_up();
  if (place_ < 0) return;
  const std::lock_guard lock(hall_.mutex_);
  --hall_.visits_;
  hall_.changed_.notify_all();
}

/// Another script may have the place from here on; the visit counts until its thread has ended.
void GuestVisit::stand_up() {
  visitor_.reset();
  if (place_ < 0 || std::exchange(stands_, true)) return;
  hall_.table_->sit(place_, nullptr);
  bool tells = false;
  {
    const std::lock_guard lock(hall_.mutex_);
    place().taken = false;
    place().status.process = 0;
    if (founds_ && hall_.stage_ == GuestHall::Stage::filling) {
      hall_.stage_ = GuestHall::Stage::empty;
      hall_.layout_.reset();
    }
    tells = hall_.stage_ == GuestHall::Stage::running;
    hall_.changed_.notify_all();
  }
  if (tells)
    hall_.say(fmt::format("the script of place {} has gone, after {} steps of its rank", place_,
                          number_));
}

void GuestVisit::run() {
  Question question;
  if (!script_.next(question)) return;
  if (question.record.kind != GuestKind::join)
    return script_.refuse("the first question is a join");
  if (!join(question)) return;
  while (script_.next(question))
    if (!handle(question)) return;
}

bool GuestVisit::handle(Question& question) {
  const GuestKind kind = question.record.kind;
  if (kind == GuestKind::leave) {
    const GuestRecord bye = record(GuestKind::bye);
    stand_up();  // before it is told so: it may join again at once
    return script_.answer(bye), false;
  }
  if (founds_ && kind == GuestKind::step) return found(question);
  if (founds_)
    return script_.refuse("the run has not begun, accepted: a step with the starting point"), false;
  switch (kind) {
    case GuestKind::step: return step(question);
    case GuestKind::keep: return keep(question);
    case GuestKind::kept: return kept();
    case GuestKind::mean: return mean();
    case GuestKind::finish: return finish();
    case GuestKind::checkpoint: return checkpoint();
    default: return script_.refuse("a script joins once"), false;
  }
}

GuestRecord GuestVisit::record(GuestKind kind) const {
  GuestRecord r;
  r.kind = kind;
  r.number = number_;
  r.exchanges = exchanges_;
  const std::lock_guard lock(hall_.mutex_);
  const GuestTable::Server server = hall_.table_->server(std::max(0, place_));
  r.rank =
      static_cast<uint32_t>(server.rank >= 0 ? server.rank : hall_.options_.first_rank + place_);
  r.ranks = static_cast<uint32_t>(std::max(hall_.epoch_.ranks, hall_.options_.places));
  r.epoch = hall_.epoch_.epoch;
  if (hall_.run_.counters != nullptr)  // of those here, and as many of each of the others
    r.run_steps = hall_.run_.counters->gradients.load(std::memory_order_relaxed) * r.ranks /
                  static_cast<uint64_t>(hall_.options_.places);
  return r;
}

/// REQUIRES: it has one, and the lock is held.
GuestHall::Place& GuestVisit::place() { return hall_.places_[static_cast<size_t>(place_)]; }

bool GuestVisit::over() const {
  const std::lock_guard lock(hall_.mutex_);
  return hall_.stage_ == GuestHall::Stage::over;
}

template <class There>
bool GuestVisit::await(const There& there) {
  const auto start = GuestHall::Clock::now();
  for (int look = 1; !there(); ++look) {
    if (script_.gone()) return false;
    if (look % kPollsBetween != 0) continue;
    GuestRecord wait = record(GuestKind::wait);
    wait.value = Seconds(GuestHall::Clock::now() - start).count();
    if (!script_.answer(wait)) return false;
  }
  return true;
}

// --- coming

bool GuestVisit::join(const Question& question) {
  auto layout = read_guest_layout(question.text);
  if (!layout) return script_.refuse(layout.error().message), false;
  if (!claim(*layout, question.record.rank)) return false;
  trained_ = layout->trained_elements();
  aside_ = layout->aside_elements();
  memory_ = SharedMemory::make((trained_ + aside_) * sizeof(float), SharedMemory::Writers::all);
  if (memory_ == nullptr) return script_.refuse("no memory for the front is to be had"), false;
  answer_ = std::make_shared<Promised<GuestAnswer>>();
  const Vec front(memory_->data(), trained_, DType::f32);
  seat_ = std::make_shared<GuestSeat>(
      front, memory_, [answer = answer_](const GuestAnswer& a) { answer->keep(a); });
  if (!founds_ && !sit_down()) return false;
  GuestRecord welcome = record(GuestKind::welcome);
  welcome.flags = founds_ ? 0 : kGuestResumed;
  if (over()) welcome.flags |= kGuestEnd;
  return script_.answer(welcome, {}, memory_->fd());
}

/// A place for the script, which may have to wait for the first one's starting point.
bool GuestVisit::claim(const GuestLayout& layout, uint32_t wanted) {
  std::string refusal;
  const bool here = await([&] {
    std::unique_lock lock(hall_.mutex_);
    refusal = seat_for(layout, wanted);
    if (!refusal.empty() || place_ >= 0) return true;
    hall_.changed_.wait_for(lock, kPoll);
    return false;
  });
  if (!refusal.empty()) script_.refuse(refusal);
  return here && refusal.empty();
}

/// Takes a place where there is one and the time has come. Returns why there never will be one.
/// The lock is held.
std::string GuestVisit::seat_for(const GuestLayout& layout, uint32_t wanted) {
  using Stage = GuestHall::Stage;
  if (hall_.stage_ == Stage::over) return "the run is over";
  if (!layout.run.empty() && layout.run != hall_.options_.run)
    return fmt::format("this node is of run \"{}\", not of \"{}\"", hall_.options_.run, layout.run);
  if (hall_.layout_) {
    std::string other = difference(hall_.layout_->trained, layout.trained);
    if (other.empty()) other = difference(hall_.layout_->aside, layout.aside);
    if (!other.empty())
      return fmt::format("a layout of {}; this run trains {}: {}", counted(layout),
                         counted(*hall_.layout_), other);
  }
  if (hall_.stage_ == Stage::filling) return {};
  const int places = hall_.options_.places;
  int free = -1, first = hall_.options_.first_rank;
  if (const int known = hall_.table_->server(0).rank; known >= 0) first = known;
  for (int k = 0; k < places && free < 0; ++k) {
    const bool fits = wanted == kAnyGuestRank || wanted == static_cast<uint32_t>(first + k);
    if (fits && !hall_.places_[static_cast<size_t>(k)].taken) free = k;
  }
  if (free < 0 && wanted == kAnyGuestRank)
    return fmt::format("no seat is free: all {} are taken", places);
  if (free < 0)
    return fmt::format("rank {} is not free, accepted: one of {} to {} that no script has", wanted,
                       first, first + places - 1);
  place_ = free;
  founds_ = hall_.stage_ == Stage::empty;
  if (founds_) {
    hall_.stage_ = Stage::filling;
    hall_.layout_ = layout;
  }
  place().taken = true;
  place().status.process = script_.process();
  place().answered_at = GuestHall::Clock::now();
  ++place().status.visits;
  ++hall_.visits_;
  return {};
}

/// The front becomes the rank's x.
bool GuestVisit::sit_down() {
  seat_->turn = GuestSeat::Turn::rank;
  hall_.table_->sit(place_, seat_);
  std::optional<GuestAnswer> answered;
  const bool here = await([&] { return (answered = answer_->wait(kPoll)) || over(); });
  if (!here) return false;
  if (!answered) return script_.refuse("the run is over"), false;
  number_ = answered->steps;
  exchanges_ = answered->exchanges;
  hall_.say(fmt::format("a script, process {}, computes the steps of rank {}", script_.process(),
                        hall_.table_->server(place_).rank));
  return true;
}

/// The first script has filled its front: that is where the run begins.
bool GuestVisit::found(const Question& question) {
  if (question.record.number != 0)
    return script_.refuse(fmt::format("step {} before the starting point, accepted: 0",
                                      question.record.number)),
           false;
  if (!all_finite({}, seat_->front))
    return script_.refuse("the starting point is not finite"), false;
  asked_at_ = GuestHall::Clock::now();
  {
    const std::lock_guard lock(hall_.mutex_);
    Buffer start(trained_, DType::f32), statistics(aside_, DType::f32);
    scale({}, 1, seat_->front, start);
    scale({}, 1, aside(), statistics);
    hall_.objective_ = std::make_shared<GuestObjective>(layout_of(hall_.layout_->trained),
                                                        layout_of(hall_.layout_->aside),
                                                        std::move(start), std::move(statistics));
    hall_.stage_ = std::max(hall_.stage_, GuestHall::Stage::running);
    founds_ = false;
    hall_.changed_.notify_all();
  }
  if (!sit_down()) return false;
  return give_front(0);
}

// --- steps

void GuestVisit::remember_aside() {
  if (aside_ == 0) return;
  const std::lock_guard lock(hall_.mutex_);
  if (hall_.run_.system == nullptr) return;
  const int rank = hall_.table_->server(place_).rank;
  hall_.objective_->set_statistics(rank % hall_.run_.ranks, number_, aside());
}

ConstVec GuestVisit::aside() const {
  return {static_cast<const float*>(memory_->data()) + trained_, aside_, DType::f32};
}

/// Waits until the node has told of its run: a worker may serve a seat a moment before. False: the
/// script has gone, or the run is over.
bool GuestVisit::begun() {
  const bool here = await([&] {
    std::unique_lock lock(hall_.mutex_);
    return hall_.changed_.wait_for(lock, kPoll, [&] {
      return hall_.run_.system != nullptr || hall_.stage_ == GuestHall::Stage::over;
    });
  });
  return here && !over();
}

std::optional<GuestAnswer> GuestVisit::ask(bool steps, double loss) {
  if (!visitor_) {
    if (!begun()) return std::nullopt;
    const std::lock_guard lock(hall_.mutex_);
    visitor_.emplace(*hall_.run_.system);
    visitor_->set_computing(false);  // no timer waits for a script
  }
  seat_->steps = steps;
  seat_->loss = loss;
  seat_->turn = GuestSeat::Turn::rank;
  // After the turn has passed: a worker that serves from now on sees what is asked by itself.
  if (const GuestWorkerActor worker = hall_.table_->server(place_).worker)
    visitor_->deliver(caf::actor_cast<caf::strong_actor_ptr>(worker),
                      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, Computed{}));
  std::optional<GuestAnswer> answered;
  await([&] { return (answered = answer_->wait(kPoll)) || over(); });
  return answered;
}

bool GuestVisit::step(const Question& question) {
  asked_at_ = GuestHall::Clock::now();
  const uint64_t asked = question.record.number;
  if (asked > number_ + 1)
    return script_.refuse(
               fmt::format("step {}, accepted: {}, the next of the rank", asked, number_ + 1)),
           false;
  uint16_t flags = 0;
  if (asked == number_ + 1 && !over()) {
    remember_aside();
    const auto answered = ask(true, question.record.value);
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

/// The answer to a step, which took from asked_at_ until now.
bool GuestVisit::give_front(uint16_t flags) {
  GuestRecord front = record(GuestKind::front);
  front.flags = flags;
  if (over()) front.flags |= kGuestEnd;
  const auto now = GuestHall::Clock::now();
  front.value = Seconds(now - asked_at_).count();
  {
    const std::lock_guard lock(hall_.mutex_);
    place().status.steps = number_;
    place().answered_at = now;
  }
  return script_.answer(front);
}

// --- blobs

bool GuestVisit::keep(Question& question) {
  struct stat about {};
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  const int fd = question.descriptor.fd();
  const bool sealed = fd >= 0 && (::fcntl(fd, F_GET_SEALS) & kSealed) == kSealed &&
                      ::fcntl(fd, F_GET_SEALS) >= 0 && ::fstat(fd, &about) == 0;
  if (!sealed || static_cast<uint64_t>(about.st_size) != question.record.count)
    return script_.refuse(
               "keep without its memory, accepted: a memfd of the size that is told, sealed "
               "against shrinking, growing and writing"),
           false;
  constexpr blkcnt_t kBlock = 512;               // of stat's count, whatever the file system's are
  if (about.st_blocks * kBlock < about.st_size)  // a copy would need memory that nobody has filled
    return script_.refuse(fmt::format(
               "keep of {} bytes, of which {} are there, accepted: memory that is filled",
               about.st_size, about.st_blocks * kBlock)),
           false;
  GuestRecord answer = record(GuestKind::kept);
  answer.number = question.record.number;
  answer.count = question.record.count;
  {
    const std::lock_guard lock(hall_.mutex_);
    place().blob = std::move(question.descriptor);
    place().blob_number = question.record.number;
    place().blob_bytes = question.record.count;
  }
  return script_.answer(answer);
}

bool GuestVisit::kept() {
  GuestRecord answer = record(GuestKind::kept);
  Descriptor blob;
  {
    const std::lock_guard lock(hall_.mutex_);
    answer.number = place().blob_number;
    answer.count = place().blob_bytes;
    if (place().blob) blob = Descriptor(::fcntl(place().blob.fd(), F_DUPFD_CLOEXEC, 0));
  }
  if (!blob) answer.count = 0;
  return script_.answer(answer, {}, blob.fd());
}

/// All ranks of the node are written down, with what their scripts have kept.
bool GuestVisit::checkpoint() {
  if (!begun() && !over()) return false;
  GuestHall::Run run;
  {
    const std::lock_guard lock(hall_.mutex_);
    run = hall_.run_;
  }
  std::optional<std::string> told;
  if (over()) {
    told = fmt::format("{}: the run is over", kNoCheckpoint);
  } else if (!run.checkpointer) {
    told = fmt::format("{}: this node has no run directory", kNoCheckpoint);
  } else {  // as in mean(): of a helper
    auto promise = std::make_shared<Promised<std::string>>();
    run.system->spawn(
        [promise](caf::event_based_actor* self, const CheckpointerActor& to) {
          self->request(to, caf::infinite, SaveNow{})
              .then([promise](const std::string& line) { promise->keep(line); },
                    [promise](const caf::error&) {
                      promise->keep(fmt::format("{}: the run is over", kNoCheckpoint));
                    });
        },
        run.checkpointer);
    if (!await([&] { return (told = promise->wait(kPoll)) || over(); })) return false;
    if (!told) told = fmt::format("{}: the run is over", kNoCheckpoint);
  }
  GuestRecord answer = record(GuestKind::saved);
  if (told->starts_with(kNoCheckpoint)) answer.flags |= kGuestNotSaved;
  return script_.answer(answer, *told);
}

// --- means

bool GuestVisit::send_mean(ConstVec mean, ConstVec aside, int ranks) {
  auto memory = SharedMemory::make((trained_ + aside_) * sizeof(float));
  if (memory == nullptr || mean.size != trained_ || aside.size != aside_)
    return script_.refuse("no memory for a mean is to be had"), false;
  auto* to = static_cast<float*>(memory->data());
  std::memcpy(to, mean.data, mean.bytes());
  if (aside.size > 0) std::memcpy(to + trained_, aside.data, aside.bytes());
  GuestRecord answer = record(GuestKind::mean);
  answer.ranks = static_cast<uint32_t>(ranks);
  answer.count = memory->bytes();
  return script_.answer(answer, {}, memory->fd());
}

bool GuestVisit::mean() {
  if (!begun() && !over()) return false;
  GuestHall::Run run;
  {
    const std::lock_guard lock(hall_.mutex_);
    run = hall_.run_;
  }
  MeanSettled settled;
  const auto ask = [&] {  // of a helper, whose mailbox an answer that comes too late finds gone
    auto promise = std::make_shared<Promised<MeanSettled>>();
    run.system->spawn(
        [promise](caf::event_based_actor* self, const ClusterActor& cluster) {
          self->request(cluster, caf::infinite, WantMean{})
              .then([promise](MeanSettled& s) { promise->keep(std::move(s)); },
                    [promise](const caf::error&) { promise->keep({}); });
        },
        run.cluster);
    return promise;
  };
  auto promise = over() ? nullptr : ask();
  const bool here = await([&] {
    if (over()) return true;
    auto came = promise->wait(kPoll);
    if (!came) return false;
    settled = std::move(*came);
    if (settled.mean != nullptr) return true;
    std::unique_lock lock(hall_.mutex_);  // the ranks here are not in the graph yet
    hall_.changed_.wait_for(lock, kPoll);
    promise = ask();
    return false;
  });
  if (!here) return false;
  if (settled.mean != nullptr) {
    const std::vector<Buffer>& vectors = settled.mean->vectors;
    const ConstVec aside = vectors.size() > 1 ? vectors[1].vec() : ConstVec();
    return send_mean(vectors[0].vec(), aside, settled.mean->ranks);
  }
  return finish();
}

/// The rank has done its share: the mean at the end.
bool GuestVisit::finish() {
  const GuestWorkerActor worker = hall_.table_->server(place_).worker;
  if (worker && !over()) caf::anon_send(worker, GuestFinished{});
  const bool here = await([&] {
    std::unique_lock lock(hall_.mutex_);
    return hall_.changed_.wait_for(lock, kPoll,
                                   [&] { return hall_.stage_ == GuestHall::Stage::over; });
  });
  if (!here) return false;
  std::shared_ptr<const Buffer> mean, aside;
  int ranks = 0;
  {
    const std::lock_guard lock(hall_.mutex_);
    mean = hall_.mean_;
    aside = hall_.mean_aside_;
    ranks = hall_.ranks_in_mean_;
  }
  if (mean == nullptr) return script_.refuse("the run has ended without a mean"), false;
  return send_mean(mean->vec(), aside ? aside->vec() : ConstVec(), ranks);
}

}  // namespace grapevine
