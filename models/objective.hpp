// Objective: what is trained. Layout, initial point, loss and gradient at given parameters,
// evaluation.
//
// One object serves every rank of a node. `thread` names one of the `threads` it was made with:
// calls with different `thread` may run at once, calls with the same one may not; a network keeps
// one module per thread. The result of gradient() depends only on (seed, rank, index, x), not on
// the thread or on the order of calls. The exception are running statistics (batch norm), which
// each rank keeps for itself.
//
// No header here includes LibTorch. Networks are in a module that is loaded on demand
// (make_objective).
#pragma once
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

struct DataCut;  // models/walk.hpp

inline constexpr char kFp32[] = "fp32", kBf16[] = "bf16";

struct ObjectiveSpec {
  std::string objective = "network";  // or one of analytic.hpp
  int ranks = 1;
  int threads = 1;
  bool has_tester = false;  // one thread more, of the number `threads`, which only tests
  uint64_t seed = 1;
  // network
  std::string model = "cnn-small";        // plan_network() and plan_language_model() know them;
                                          // or a TorchScript FILE.pt
  std::string dataset = "fashion-mnist";  // read_data_set() knows them; or text:FILE, or a file
                                          // that own_data.hpp knows
  std::string loss = "auto";  // cross_entropy where targets are classes, else mse; or one of these
  std::string data_dir;       // empty: where the distribution's package puts it
  std::string partition = "auto";  // iid, text: contiguous; or partition.hpp's
  double validation_split = 0;     // share of the training samples that is set aside; below 1
  int batch = 16;
  bool decay_norms_and_biases = true;
  bool flip = true;  // mirror images at random, where the set allows it
  int window = 32;   // text: characters or words that one gradient goes back
  double clip = 0;   // longest gradient, a norm; 0: any
  // In which layers compute gradients; bf16 where that does no harm (LibTorch's autocast), between
  // parameters and gradients in fp32.
  std::string precision = kFp32;
  uint64_t data_hash = 0;  // of the samples; set by who reads them
  // Of fp32 on a GPU: convolutions may round what they multiply to 10 bits, as PyTorch has it.
  bool tf32 = true;
  // analytic
  int dim = 16;
  double noise = 0;  // standard deviation of the gradient noise per coordinate
  double zeta2 = 0;  // how far the ranks disagree; each objective says in which unit
  double mu = 1;     // smallest singular value (quadratic) or curvature (diagonal); largest: 1
  double r0 = 10;    // distance of the optimum from the start
  int rows = 100;    // of a matrix
  int columns = 100;
  std::string entries = "gaussian";  // of a matrix: gaussian | sines
  double spectrum_decay = 0;         // p > 0: the k-th singular value of a matrix goes as k^-p
};

struct Evaluation {
  double loss = 0;
  double accuracy = 0;  // 0..1; NaN where the objective has none
};

/// Thrown by queue_gradient(): there is no memory for this gradient, also after all that was kept
/// for later has been given back.
struct NoMemoryLeft : std::bad_alloc {
  const char* what() const noexcept override { return "there is no memory for it"; }
};

class Objective {
 public:
  virtual ~Objective() = default;

  virtual const ParameterLayout& layout() const = 0;
  virtual bool has_gradients() const { return true; }  // false: consensus, gossip alone
  /// Whether the ranks take steps at all: by gradients, or by scripts (guest.hpp).
  virtual bool has_workers() const { return has_gradients(); }

  /// Writes rank's start. Networks: the same for every rank. Consensus: Gaussian, a stream per
  /// rank.
  virtual void initial_point(int rank, Vec x) const = 0;
  /// Whether it is the same for every rank: then it need not be asked for more than once.
  virtual bool starts_alike() const { return false; }

  /// The gradient number `index` (from 0) of `rank` at x, written to g (both of the layout's size).
  /// Returns the loss.
  virtual double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) = 0;

  /// Has the threads' gradients computed on GPU `number` from now on, by queue_gradient(). Error
  /// (user): this objective is computed on the CPU alone.
  virtual Status use_gpu(int number);
  /// Has them computed here again. Also of one that never was on a GPU, or could not go there.
  virtual void use_host() {}
  /// gradient(), queued on a stream of that GPU (a cudaStream_t, always the same for one thread). x
  /// and g are on the GPU, `loss` is in pinned memory; the call does not wait. Null: computed at
  /// once, in the host's memory. REQUIRES: the last successful call was use_gpu() if there is a
  /// stream, use_host() if there is none. Throws NoMemoryLeft, after which the thread may continue.
  virtual void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                              double* loss);
  /// The work queued by that thread has been done: it may be called again. Not after it has thrown.
  virtual void gradient_came(int thread, int rank);
  /// That GPU is lost: every later use of it fails, so its memory is not freed, even at the end.
  /// Any thread, also while others compute.
  virtual void lose_gpu() {}

  /// The values besides the parameters that are averaged over the ranks at the end and for a
  /// snapshot: the running statistics of a network. Empty if there are none.
  virtual const ParameterLayout& statistics() const;
  /// The statistics of a rank, whole, while others compute; the start if the rank has taken no
  /// gradient.
  virtual void read_statistics(int rank, Vec out) const;
  /// Whether the rank has statistics of its own. If none has, a mean has those of the start.
  virtual bool has_statistics(int rank) const;
  /// read_statistics(), finite where the rank has not diverged.
  virtual void read_for_mean(int rank, Vec out) const { read_statistics(rank, out); }
  /// Sets the statistics of a rank that continues after this number of gradients of an earlier
  /// life.
  virtual void set_statistics(int rank, uint64_t gradients, ConstVec);
  /// The average over the ranks of all nodes: from now on it is the one that evaluate() of rank -1
  /// and save_model() go by.
  virtual void set_average_statistics(ConstVec);

  /// The test set's loss and accuracy at x (analytic: f(x) - minimum). rank: whose running
  /// statistics to use; -1: their average over all ranks here, or the set ones.
  virtual Evaluation evaluate(int thread, int rank, ConstVec x) = 0;

  /// The same on the training samples that were set aside; NaN where there are none.
  virtual Evaluation validate(int thread, int rank, ConstVec x);

  /// Whether write_on() can continue this text. Error (user): the text has other characters or
  /// words than the data set, or the objective is no language model.
  virtual Status can_write_on(const std::string& text) const;
  /// The text, continued by so many characters or words, which the seed draws with the
  /// probabilities that the model at x gives them. REQUIRES: can_write_on(text).
  virtual std::string write_on(int thread, ConstVec x, const std::string& text, size_t count,
                               uint64_t seed);

  /// Gradients per pass over one rank's share of the data; 0 where there is no data.
  virtual uint64_t gradients_per_pass(int rank) const = 0;

  /// The samples that earlier lives of the run, with other numbers of ranks, have taken, in order.
  /// Before the first gradient. Error (user): cuts that do not fit this data.
  virtual Status go_on_in_data(const std::vector<DataCut>&);

  /// How many training samples of each label each rank has, [rank][label]; empty without labels.
  virtual std::vector<std::vector<uint64_t>> label_counts() const { return {}; }

  /// A hash of the samples' content, so that a resumed run notices changed data; 0: unknown.
  virtual uint64_t data_hash() const { return 0; }

  /// The data and the model, in one line for reports.
  virtual std::string description() const = 0;

  /// Writes model.safetensors and model.pt (torch.load with weights_only=True) into the directory;
  /// each file appears whole or not at all. Analytic objectives write the safetensors file alone.
  virtual Status save_model(const std::string& directory, ConstVec x) = 0;
};

/// Loads the network module on demand. Errors: an unknown name (and what is accepted), data that is
/// missing, cut or of the wrong kind (and the file), more ranks than samples, a module that cannot
/// be loaded.
Result<std::unique_ptr<Objective>> make_objective(const ObjectiveSpec&);

}  // namespace grapevine
