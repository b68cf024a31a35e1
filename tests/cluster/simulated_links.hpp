// SimulatedNetwork: the links of many processes, as sockets would carry them, in virtual time.
//
// A pair of processes has one control link, in order and without loss, and a stream of payloads
// beside it. What a cable or a process can do to them happens here: a blocked path holds what is
// sent until it is open again, and ends the link after three seconds (payloads: two) without an
// acknowledgement, at the ends that sent something; a killed process ends its links at the others,
// with what was under way or without the tail of it; a stopped one hears everything when it goes
// on. Who stands at which end after two dials is decided as connection_manager.hpp does.
#pragma once
#include <caf/all.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/transport/links.hpp"
#include "kernels/base/random.hpp"

namespace grapevine::test {

struct NetworkModel {
  double latency_s = 1e-3, jitter = 1;  // of a message: latency x (1 + U jitter)
  double bandwidth = 1e8;               // bytes per second of a payload
};

class SimulatedNetwork {
 public:
  /// `world`: a system of its own on the clock of all.
  SimulatedNetwork(caf::actor_system& world, NetworkModel, uint64_t seed);
  ~SimulatedNetwork();

  /// A process on `host` listens at `address`; its number counts from 0.
  std::shared_ptr<Links> open(int host, const std::string& address, LinksOptions, LinkEvents);

  double now() const { return clock_.now(); }
  void at(double seconds, std::function<void()>);  // an event

  void kill(int process);
  void leave(int process);  // says goodbye first
  void stop(int process);
  void go_on(int process);
  void cut(int from_host, int to_host) { cuts_.insert({from_host, to_host}); }
  void heal();                    // all cuts
  void break_link(int a, int b);  // of two processes; both ends hear of it

  /// All processes are of one host from now on, and may lend memory. `carries`, at a note of a
  /// process, or at its end: what its receiver knows of it then.
  using Knowledge = std::function<void(int receiver)>;
  void share_memory(std::function<Knowledge(int sender)> carries) { carries_ = std::move(carries); }
  size_t lines() const;  // that stand

  using Answer = std::function<void(const ConsoleReply& whole)>;
  void ask(int process, ConsoleRequest, Answer);

  uint64_t log_hash() const { return hash_; }                // of all that was sent, and when
  size_t lost() const { return lost_; }                      // payloads
  uint64_t message_bytes() const { return message_bytes_; }  // sent by all, but payloads

 private:
  friend class SimulatedLinks;
  friend class SimulatedLine;
  struct Process {
    int host = 0;
    std::string address;
    LinksOptions options;
    LinkEvents events;
    bool alive = true, stopped = false;
    std::vector<std::function<void()>> inbox;  // while stopped
    std::map<std::string, int> standing;       // links, by the other's name
    std::map<std::string, uint64_t> owners;    // of names, by the membership
    std::vector<int> links;                    // all that it ever had
    std::map<uint64_t, std::pair<std::string, Answer>> consoles;
  };
  struct Item {
    enum class Kind { agree, control, payload, end } kind = Kind::control;
    std::vector<std::byte> bytes;
    std::variant<FrameHeader, Parcel> header;  // of a payload
    Payload payload;
    std::string reason;
  };
  struct Stream {
    double last_at = 0;
    std::deque<Item> held;               // a blocked path's
    double unacked_since = kNotWaiting;  // what was sent then
    double lost_after = kNotWaiting;     // the sender was killed
    size_t under_way = 0;
  };
  struct Link {
    int ends[2] = {0, 0};  // processes; the lower name first
    bool up[2] = {false, false}, was_up[2] = {false, false};
    Stream control[2], payloads[2];  // from ends[side]
    LinkCounts counts[2];
  };
  static constexpr double kNotWaiting = 1e300;
  struct Line {
    int ends[2] = {0, 0};  // processes: the lender, the borrower
    LineEvents events[2];
    bool held[2] = {true, true};    // by its process
    bool over[2] = {false, false};  // nothing more comes from this end
    size_t out = 0;                 // lendings
    double last_at[2] = {0, 0};
  };

  Process& process(int p) { return *processes_[static_cast<size_t>(p)]; }
  const std::string& name(int p) { return process(p).options.self.node; }
  Link& link(int id) { return *links_[static_cast<size_t>(id)]; }
  static int side_of(const Link& l, int p) { return l.ends[0] == p ? 0 : 1; }
  LinkCounts totals(int p);
  bool blocked(int from_process, int to_process);
  double delay() { return model_.latency_s * (1 + model_.jitter * random_.uniform()); }
  void tell(int p, std::function<void()>);
  void fold(double value, uint64_t word);

  void dial(int p, const std::string& address);
  void attempt(int p, const std::string& address, double waited_s);
  void fail(int p, const std::string& address, const std::string& reason, bool refused);
  void agree(int connector, int listener, const std::string& address);
  void know(int p, const std::string& node, uint64_t id);
  bool has_name_of_other(int p, int as_seen_by);
  bool stands(int high, int low);
  void stand(int id, int side);
  /// Its links end with `reason`, after what `break_off` does to each.
  void vanish(int p, const std::string& reason,
              const std::function<void(Link&, int side)>& break_off);

  bool send(int p, const std::string& node, const ControlMessage&);
  bool send_payload(int p, const std::string& node, const std::variant<FrameHeader, Parcel>&,
                    const Payload&);
  bool spoil(int p, const std::string& node);
  void reply(int p, uint64_t console, const ConsoleReply&);
  void close(int p, const std::string& node, const std::string& reason);
  Stream& stream(int id, int side, Item::Kind);
  void push(int id, int side, Item);
  void watch(int id, int side, Item::Kind, double since);
  void dispatch(int id, int side, Item, double delay_s);
  void arrive(int id, int side, Item&);
  void receive(int id, int side, Item&);
  void end(int id, int side, const std::string& reason);
  void flush(int id, int side, Stream&);

  std::shared_ptr<MemoryLine> lend(int p, const std::string& node, const LentMemory&, LineEvents);
  Line& line(size_t id) { return *lines_[id]; }
  bool note(size_t id, int side, const LineNote&);
  void over(size_t id, int side);
  void let_go(size_t id, int side);
  void on_line(size_t id, int side, std::function<void()>);

  RunClock clock_;
  caf::actor_system& world_;
  caf::actor calendar_;
  NetworkModel model_;
  Random random_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<std::string, int> at_address_;  // the last process that had it
  std::vector<std::unique_ptr<Link>> links_;
  std::map<std::pair<int, int>, std::vector<int>> links_between_;  // by ends
  std::set<std::pair<int, int>> cuts_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::function<Knowledge(int)> carries_;
  uint64_t hash_, consoles_ = 0;
  size_t lost_ = 0;
  uint64_t message_bytes_ = 0;
};

}  // namespace grapevine::test
