// GuestSession: one script from its join to its leave, on its own thread. See guest_server.hpp.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "actors/clocks/wall_scheduler.hpp"
#include "actors/guests/guest_server.hpp"
#include "actors/mail/promised.hpp"

namespace grapevine {

class GuestSession {
 public:
  GuestSession(GuestServer& server, GuestConnection& script) : server_(server), script_(script) {}
  ~GuestSession();

  void run();

 private:
  using Question = GuestQuestion;

  // These return false when the session is over.
  bool join(const Question&);
  bool claim(const GuestLayout&, const GuestRecord& join);
  Status has_room(const GuestLayout&) const;
  void make_seat();
  bool take_seat();
  bool show_mean();
  bool show_aside();
  bool found(const Question&);
  bool handle(Question&);
  void leave_seat();
  bool step(const Question&);
  bool keep(Question&);
  bool kept();
  bool mean();
  bool finish();
  bool checkpoint();
  bool share(const Question&);
  bool count_unfinished(WorkPool&, uint64_t taken) GV_REQUIRES(server_.mutex_);
  bool report(const Question&);
  bool send_mean(ConstVec mean, ConstVec aside, int ranks);
  void served();

  /// Asks the worker. No value: the script has gone, or the run is over.
  bool begun();
  std::optional<GuestAnswer> ask(const GuestRecord& step);
  /// Waits until `there()` returns true, and tells the script meanwhile that it takes longer.
  /// False: the script has gone.
  template <class There>
  bool await(const There& there);
  GuestRecord wait_record() const;
  void remember_aside();
  void remember_share(const GuestRecord& step);
  bool give_front(uint16_t flags);
  GuestServer::Place& place() GV_REQUIRES(server_.mutex_);
  GuestServer::Run run_here() const;
  bool over() const;
  GuestRecord record(GuestKind) const;

  GuestServer& server_;
  GuestConnection& script_;
  int place_ = -1;
  bool founds_ = false;         // its script has yet to bring the starting point
  bool has_left_seat_ = false;  // another script may have the place now
  bool counts_ = false;         // counted in server_.unserved_
  bool finishes_ = false;
  bool reports_ = false;
  GuestLayout layout_;
  std::shared_ptr<SharedMemory> memory_;
  std::shared_ptr<GuestSeat> seat_;  // null until there is a starting point
  std::shared_ptr<Promised<GuestAnswer>> answer_;
  std::optional<WallScheduler::Visitor> visitor_;
  GuestServer::Clock::time_point asked_at_{};
  uint64_t number_ = 0, exchanges_ = 0;  // in the last answer
};

}  // namespace grapevine
