// GuestRecord and GuestLayout: what a guest, a script that computes a rank's steps in a process of
// its own, and its node say to each other over a unix socket. Values.
//
// The script asks and the node answers, one question at a time; the node never speaks unasked:
//
//   join     text: a GuestLayout                -> welcome, with the front's descriptor; refused
//   step     the number of the step, its loss   -> front
//   mean                                        -> mean, with a descriptor of its values
//   keep     a descriptor of a blob             -> kept
//   kept                                        -> kept, with the descriptor where there is a blob
//   finish   the script's share is done         -> mean, when the others have done theirs
//   checkpoint                                  -> saved, text: what became of it
//   leave                                       -> bye
//
// `wait` comes once a second before an answer that takes longer.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace grapevine {

enum class GuestKind : uint16_t {
  join,
  welcome,
  refused,
  step,
  front,
  mean,
  keep,
  kept,
  finish,
  leave,
  bye,
  wait,
  checkpoint,
  saved
};
constexpr int kGuestKinds = 14;

constexpr uint16_t kGuestResumed = 1;    // welcome: the rank has parameters, and they are the front
constexpr uint16_t kGuestEnd = 2;        // front: no more steps are taken
constexpr uint16_t kGuestNotFinite = 4;  // front: what was not finite has been left out
constexpr uint16_t kGuestNotSaved = 8;   // saved: it could not be written
constexpr uint32_t kAnyGuestRank = ~uint32_t{0};

struct GuestRecord {
  GuestKind kind = GuestKind::join;
  uint16_t flags = 0;
  uint32_t rank = 0, ranks = 0;
  uint64_t number = 0, run_steps = 0, exchanges = 0, count = 0;
  double value = 0;  // may be no number
  uint64_t epoch = 0;
};

/// What a script trains: the text of a join. A line with the run's name (empty: whichever it is),
/// then a line a tensor, `trained NAME D D ...` or `aside NAME D ...`, the trained ones first. What
/// is aside (buffers) is averaged in means and never gossiped. All fp32.
struct GuestLayout {
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;  // empty: a single number
    bool operator==(const Tensor&) const = default;
  };

  std::string run;
  std::vector<Tensor> trained, aside;

  static uint64_t elements(const std::vector<Tensor>&);
  uint64_t trained_elements() const { return elements(trained); }
  uint64_t aside_elements() const { return elements(aside); }
};

}  // namespace grapevine
