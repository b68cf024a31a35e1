// The state of ranks: what a Gateway asks of others when it joins a run that has begun, and what it
// gives to those who join later.
#include <algorithm>

#include "actors/cluster/gateway.hpp"
#include "kernels/ops.hpp"

namespace grapevine {

// --- to begin with

void Gateway::fetch() {
  phase_ = Phase::fetching;
  FetcherOptions options;
  options.shape = deps_.shape;
  for (const Member& m : membership_->graph())
    if (m.node != membership_->self().node && membership_->linked(m.node))
      options.sources.push_back({m.node, m.first_rank});
  if (options.sources.empty()) {
    say("nobody is there to give the state of a rank: the ranks here begin at the start");
    return train(nullptr);
  }
  // Those who come at once ask different nodes.
  const size_t turn = name_hash(membership_->self().node) % options.sources.size();
  std::rotate(options.sources.begin(), options.sources.begin() + static_cast<ptrdiff_t>(turn),
              options.sources.end());
  fetcher_.emplace(options);
  fetching([this](Fetcher& f, FetcherEffects& out) { f.start(deps_.clock.now(), out); });
}

void Gateway::fetching(const std::function<void(Fetcher&, FetcherEffects&)>& event) {
  if (!fetcher_) return;
  FetcherEffects effects;
  event(*fetcher_, effects);
  for (const FetcherEffects::Ask& ask : effects.asks)
    parts_.links->send(ask.to, ask.fetch);
  for (const std::string& line : effects.lines)
    say(line);
  fetcher_due_s_ = effects.timer_at;
  arm(effects.timer_at);
  if (!effects.done && !effects.failed) return;
  std::shared_ptr<RankState> state;
  if (effects.done) {
    state = std::make_shared<RankState>();
    state->gradients = fetcher_->manifest().gradients;
    state->numbers = fetcher_->manifest().numbers;
    state->vectors = fetcher_->take();
    say("the ranks here begin with the state of another, after " +
        std::to_string(state->gradients) + " gradients");
  }
  fetcher_.reset();
  fetcher_due_s_ = kNever;
  train(std::move(state));
}

// --- for others

void Gateway::donating(const std::function<void(Donor&, DonorEffects&)>& event) {
  DonorEffects effects;
  event(donor_, effects);
  donor_due_s_ = effects.timer_at;
  for (const DonorEffects::Reply& r : effects.replies)
    parts_.links->send(r.to, r.manifest);
  for (const DonorEffects::Piece& p : effects.pieces)
    send_piece(p);
  for (const DonorEffects::Take& take : effects.takes)
    take_for(take);
}

void Gateway::take_for(const DonorEffects::Take& take) {
  const auto taken = [this, take](const Donation& state) {
    Manifest manifest;
    SnapshotPtr snapshot;
    if (state && !state->vectors.empty()) {
      manifest =
          manifest_of(state->vectors, state->numbers, take.fetch.transfer, state->gradients, 1);
      snapshot = SnapshotPtr(state, &state->vectors);
    } else {
      manifest.transfer = take.fetch.transfer;
      manifest.refused = "rank " + std::to_string(take.fetch.rank) + " is not here";
    }
    donating([&](Donor& d, DonorEffects& out) {
      d.taken(deps_.clock.now(), take.node, std::move(manifest), std::move(snapshot), out);
    });
  };
  const Member& self = membership_->self();
  const bool here = take.fetch.rank - self.first_rank < self.ranks && self.ready;
  if (!here) return taken(nullptr);
  const StateActor& state = parts_.states[take.fetch.rank % parts_.states.size()];
  request(state, caf::infinite, Donate{static_cast<int>(take.fetch.rank)}).then(taken);
}

void Gateway::send_piece(const DonorEffects::Piece& piece) {
  SnapshotPool pool(piece.payload.size, piece.payload.dtype, 1);
  Payload payload{pool.take(), piece.payload.dtype, piece.payload.size, 0};
  scale({}, 1, piece.payload, payload.lease.writable());
  parts_.links->send_parcel(
      piece.to, {StatePiece{piece.transfer, piece.piece}, piece.payload.dtype, piece.payload.size},
      payload);
}

}  // namespace grapevine
