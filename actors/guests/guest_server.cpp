#include "actors/guests/guest_server.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "actors/guests/guest_session.hpp"
#include "actors/guests/script_layout.hpp"
#include "actors/rank/work_pool.hpp"
#include "actors/settings/counters.hpp"

namespace grapevine {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 50ms;
constexpr auto kHurry = 5s;     // for scripts to get the mean, if somebody waits for the end
constexpr auto kFarewell = 2s;  // for scripts to leave once they have the mean
constexpr auto kSilence = 10s;  // then a line says that scripts have not asked for the mean

}  // namespace

Result<std::shared_ptr<GuestServer>> GuestServer::open(GuestServerOptions options) {
  std::shared_ptr<GuestServer> server(new GuestServer(std::move(options)));
  const GuestServerOptions& o = server->options_;
  auto listener = GuestListener::open(o.path, o.node, [h = server.get()](GuestConnection& script) {
    GuestSession(*h, script).run();
  });
  if (!listener) return listener.error();
  server->path_ = (*listener)->path();
  server->listener_ = std::move(*listener);
  return server;
}

GuestServer::GuestServer(GuestServerOptions options)
    : options_(std::move(options)),
      table_(std::make_shared<GuestTable>(options_.places)),
      places_(static_cast<size_t>(options_.places)) {}

GuestServer::~GuestServer() { close(); }

void GuestServer::close() {
  if (listener_) end({}, {}, 0, [] { return true; });
}

std::string GuestServer::misfit(const GuestLayout& layout) const {
  const bool is_over = stage_ == Stage::over;
  if (is_over && mean_ == nullptr) return "the run is over";
  if (!layout.run.empty() && layout.run != options_.run)
    return fmt::format("this node is of run \"{}\", not of \"{}\"", options_.run, layout.run);
  if (!layout_) return {};
  return difference(*layout_, layout);
}

std::string GuestServer::other_work(uint64_t gradients) const {
  const uint64_t known = options_.gradients > 0 ? options_.gradients : gradients_;
  if (gradients == 0 || gradients == known) return {};
  const bool says = stage_ == Stage::empty && known == 0;
  const auto ranks = static_cast<uint64_t>(std::max(options_.ranks, options_.places));
  if (says && gradients >= ranks && gradients <= kMostWork) return {};
  const std::string accepted =
      says        ? fmt::format("from {}, one for each rank, to {}", ranks, kMostWork)
      : known > 0 ? fmt::format("{}, as in this run, or none", known)
                  : std::string("none, because the first script of this run gave none");
  return fmt::format("gradients is {}, accepted: {}", gradients, accepted);
}

Result<GuestServer::Taken> GuestServer::take_place(const GuestLayout& layout,
                                                   const GuestRecord& join, int process) {
  if (std::string other = other_work(join.number); !other.empty())
    return world_error(std::move(other));
  const int places = options_.places;
  const bool by_seat = (join.flags & kGuestSeat) != 0;
  int free = -1, first = by_seat ? 0 : options_.first_rank;
  if (const int known = table_->worker_at(0).rank; known >= 0 && !by_seat) first = known;
  for (int k = 0; k < places && free < 0; ++k) {
    const bool fits = join.rank == kAnyGuestRank || join.rank == static_cast<uint32_t>(first + k);
    if (fits && !places_[static_cast<size_t>(k)].taken) free = k;
  }
  if (free < 0 && join.rank == kAnyGuestRank)
    return world_error(fmt::format("no seat is free: all {} are taken", places));
  if (free < 0)
    return world_error(
        fmt::format("{} {} is not free, accepted: one of {} to {} that no script has",
                    by_seat ? "seat" : "rank", join.rank, first, first + places - 1));
  const bool founds = stage_ == Stage::empty;
  if (founds) {
    stage_ = Stage::filling;
    layout_ = layout;
    gradients_ = join.number;
  }
  Place& place = places_[static_cast<size_t>(free)];
  place.taken = true;
  place.awaited = false;
  place.status.process = process;
  place.status.group = process > 0 ? ::getpgid(process) : 0;
  place.answered_at = Clock::now();
  ++place.status.sessions;
  ++sessions_;
  ++unserved_;
  return Taken{free, founds};
}

std::shared_ptr<GuestObjective> GuestServer::await_objective(std::chrono::milliseconds limit) {
  Lock lock(mutex_);
  changed_.wait_for(lock, limit, [this]() GV_REQUIRES(mutex_) { return objective_ != nullptr; });
  return objective_;
}

uint64_t GuestServer::gradients() const {
  const Lock lock(mutex_);
  return options_.gradients > 0 ? options_.gradients : gradients_;
}

GuestLayout::Outer GuestServer::outer() const {
  const Lock lock(mutex_);
  return layout_ ? layout_->outer : GuestLayout::Outer{};
}

void GuestServer::begin(Run run) {
  const Lock lock(mutex_);
  run_ = std::move(run);
  uint64_t local_steps = 0;  // of an earlier life; its ranks' gradients do not count them
  for (const Place& place : places_)
    local_steps += place.share.local_steps;
  if (run_.pool) {
    run_.pool->had_taken(local_steps);
    run_.counters->gradients.fetch_add(local_steps, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

void GuestServer::on_epoch(const EpochInfo& epoch) {
  const Lock lock(mutex_);
  epoch_ = epoch;
}

void GuestServer::give_up(int place) {
  {
    const Lock lock(mutex_);
    Place& at = places_[static_cast<size_t>(place)];
    at.status.done = true;
    at.awaited = false;
    changed_.notify_all();
  }
  table_->finish(place);
}

void GuestServer::await_script(int place) {
  const Lock lock(mutex_);
  places_[static_cast<size_t>(place)].awaited = true;
}

bool GuestServer::awaits_anybody(Clock::time_point begin) const {
  if (unserved_ > 0) return true;
  return Clock::now() < begin + options_.latecomers &&
         std::ranges::any_of(places_, [](const Place& p) { return p.awaited; });
}

void GuestServer::end(std::shared_ptr<const Buffer> mean, std::shared_ptr<const Buffer> aside,
                      int ranks, const std::function<bool()>& hurries) {
  Lock lock(mutex_);
  stage_ = Stage::over;
  for (Place& at : places_)
    at.status.done = true;
  mean_ = std::move(mean);
  mean_aside_ = std::move(aside);
  ranks_in_mean_ = ranks;
  changed_.notify_all();
  const auto begin = Clock::now();
  auto until = mean_ ? begin + options_.patience : begin;
  for (bool said = false; Clock::now() < until && awaits_anybody(begin);) {
    changed_.wait_for(lock, kLook);
    lock.unlock();
    if (hurries()) until = std::min(until, begin + kHurry);
    if (!said && Clock::now() > begin + kSilence && (said = true))
      say("the run is over; waiting for scripts that have not asked for its mean");
    lock.lock();
  }
  changed_.wait_for(lock, kFarewell, [this]() GV_REQUIRES(mutex_) { return sessions_ == 0; });
  auto listener = std::move(listener_);
  lock.unlock();
  listener.reset();  // joins its threads
  table_->close();
  lock.lock();
  run_ = {};
  say_ = {};
}

KeptBlob GuestServer::kept(int rank) const {
  KeptBlob kept;
  Descriptor blob;
  {
    const Lock lock(mutex_);
    for (size_t k = 0; k < places_.size() && !blob; ++k) {
      if (table_->worker_at(static_cast<int>(k)).rank != rank) continue;
      kept.share = places_[k].share;
      if (!places_[k].blob) break;
      blob = Descriptor(::fcntl(places_[k].blob.fd(), F_DUPFD_CLOEXEC, 0));
      kept.steps = places_[k].blob_number;
      kept.bytes.resize(places_[k].blob_bytes);
    }
  }
  if (!read_all(blob.fd(), kept.bytes.data(), kept.bytes.size())) kept.bytes.clear();
  return kept;
}

void GuestServer::keep(int place, const KeptBlob& kept) {
  {
    const Lock lock(mutex_);
    places_.at(static_cast<size_t>(place)).share = kept.share;
  }
  if (kept.bytes.empty()) return;
  Descriptor blob = make_memory("kept");
  if (!blob || !write_all(blob.fd(), kept.bytes.data(), kept.bytes.size()) ||
      ::fcntl(blob.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    return;
  const Lock lock(mutex_);
  Place& at_place = places_.at(static_cast<size_t>(place));
  at_place.blob = std::move(blob);
  at_place.blob_number = kept.steps;
  at_place.blob_bytes = kept.bytes.size();
}

std::vector<GuestStatus> GuestServer::status() const {
  const Lock lock(mutex_);
  std::vector<GuestStatus> all;
  for (size_t k = 0; k < places_.size(); ++k) {
    const Place& place = places_[k];
    GuestStatus one = place.status;
    one.rank = table_->worker_at(static_cast<int>(k)).rank;
    const std::chrono::duration<double> since = Clock::now() - place.answered_at;
    one.since_step_s = place.taken ? since.count() : 0;
    all.push_back(one);
  }
  return all;
}

void GuestServer::set_sink(std::function<void(const std::string&)> say) {
  const Lock lock(mutex_);
  say_ = std::move(say);
}

void GuestServer::say(const std::string& line) const {
  std::function<void(const std::string&)> told;
  {
    const Lock lock(mutex_);
    told = say_;
  }
  if (told) told(line);
}

}  // namespace grapevine
