// GuestRecord and GuestLayout: what a guest, a script that computes a rank's steps in a process of
// its own, and its node say to each other over a unix socket. Values.
//
// The script asks and the node answers, one question at a time; the node never speaks unasked:
//
//   join     text: a GuestLayout                -> welcome, with the front's descriptor; refused
//            number: the work of the run, in gradients; welcome and front have it as count
//   step     the number of the step, its loss   -> front
//            exchanges: steps of its optimizer, each of which is a gradient
//   mean                                        -> mean, with a descriptor of its values
//   keep     a descriptor of a blob             -> kept
//   kept                                        -> kept, with the descriptor where there is a blob
//   finish   the script takes no more steps     -> mean, when the others take none either
//   checkpoint                                  -> saved, text: what became of it
//   share    number: gradients of the data      -> share: how far the rank is in its data, and
//                                                  value: gradients that all ranks have told
//   report   text: a GuestReport               -> report
//   leave                                       -> bye
//
// `wait` comes once a second before an answer that takes longer.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
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
  saved,
  share,
  report
};
constexpr int kGuestKinds = 16;

constexpr uint16_t kGuestResumed = 1;    // welcome: the rank has parameters, and they are the front
constexpr uint16_t kGuestEnd = 2;        // of an answer: no more steps are taken
constexpr uint16_t kGuestNotFinite = 4;  // front: what was not finite has been left out
constexpr uint16_t kGuestNotSaved = 8;   // saved: it could not be written
constexpr uint16_t kGuestAside = 16;     // welcome: what is aside is the rank's as well
constexpr uint16_t kGuestOver = 32;      // of an answer: the run has ended, finish waits no more
constexpr uint16_t kGuestMoved = 64;     // share: the front is not what was handed over
constexpr uint16_t kGuestEmpty = 128;    // wait: no script sits at the rank that is waited for
constexpr uint16_t kGuestSeat = 256;     // join: the rank is a seat of this node, counted from 0
constexpr uint32_t kAnyGuestRank = ~uint32_t{0};

struct GuestRecord {
  GuestKind kind = GuestKind::join;
  uint16_t flags = 0;
  uint32_t rank = 0, ranks = 0;
  uint64_t number = 0, run_steps = 0, exchanges = 0, count = 0;
  double value = 0;  // may be no number
  uint64_t epoch = 0;
};

/// How far a rank is in its share of the data, as its script has told with a step. Nobody here
/// knows what it means: it is there for the script that comes next.
struct GuestShare {
  uint32_t key = 0;  // of the data; 0: nothing was told
  uint64_t passes = 0, samples = 0;
  uint64_t local_steps = 0;  // of the optimizer, that the rank's steps hold beyond one each
  bool operator==(const GuestShare&) const = default;
};

/// The values of a report, by name. Its text has a line NAME VALUE for each, at least one. A name
/// has a to z, 0 to 9 and _; a value is finite.
using GuestReport = std::map<std::string, double, std::less<>>;
constexpr size_t kGuestMeasures = 8;      // names of a rank, at most
constexpr size_t kGuestMeasureName = 32;  // characters of one, at most

/// What a script trains: the text of a join. A line with the run's name (empty: whichever it is),
/// at most one with its outer optimizer, then a line a tensor, in this order:
///
///   outer LR MOMENTUM         what the script has done is a gradient for it
///   trained NAME D D ...      fp32
///   aside NAME D D ...        fp32; a buffer, which is averaged in means and never gossiped
///   aside64 NAME D D ...      the same in fp64
///   tied NAME OF D:S D:S ...  another name of OF, for files: sizes and strides of a view of it
///
/// In the memory of a front or a mean they lie in this order, those of fp64 at a multiple of eight
/// bytes.
struct GuestLayout {
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;  // empty: a single number
    bool operator==(const Tensor&) const = default;
  };
  struct Tied {
    std::string name, of;
    std::vector<int64_t> shape, strides;  // as many elements as `of` has, and within it
    bool operator==(const Tied&) const = default;
  };

  /// SGD with Nesterov's momentum. Without a rate there is none, and the rank takes what the script
  /// has done as it is.
  struct Outer {
    double lr = 0, momentum = 0;
    bool operator==(const Outer&) const = default;
  };

  std::string run;
  Outer outer;
  std::vector<Tensor> trained, aside, aside64;
  std::vector<Tied> tied;

  static uint64_t elements(const std::vector<Tensor>&);
  uint64_t trained_elements() const { return elements(trained); }
  uint64_t aside_elements() const { return elements(aside) + elements(aside64); }
  /// The offset of the first fp64 tensor, in bytes.
  uint64_t aside64_at() const;
  uint64_t bytes() const { return aside64_at() + sizeof(double) * elements(aside64); }
};

}  // namespace grapevine
