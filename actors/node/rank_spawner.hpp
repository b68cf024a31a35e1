// RankSpawner: spawns the two actors of a rank, its communicator and its worker.
#pragma once
#include <memory>

#include "actors/node/node_dependencies.hpp"

namespace grapevine {

struct CommunicatorDependencies;  // actors/rank/communicator.hpp

class RankSpawner {
 public:
  /// `dependencies` outlive it.
  explicit RankSpawner(const NodeDependencies& dependencies);

  /// The transport delivers frames to this actor from now on.
  CommunicatorActor communicator(caf::actor_system&, int rank) const;
  /// Empty: the rank computes nothing. `resumed_at`: the gradients of an earlier life.
  WorkerActor worker(caf::actor_system&, const NodeActor& node, int rank, size_t place,
                     uint64_t resumed_at) const;
  void clear() { communicating_.reset(); }

 private:
  const NodeDependencies& deps_;
  std::shared_ptr<const CommunicatorDependencies> communicating_;
};

}  // namespace grapevine
