#include "tests/conversations/harness.hpp"

#include <cmath>
#include <sstream>

#include "actors/algorithms/a2cid2_constants.hpp"
#include "actors/algorithms/method_registry.hpp"
#include "kernels/base/check.hpp"

namespace grapevine::test {

namespace {

constexpr double kHearsay = 0.2;  // s, within which news have reached everybody

}  // namespace

std::string GossipSettings::name() const {
  std::ostringstream out;
  out << graph << " of " << ranks << ", seed " << seed << ", "
      << (pairing == Pairing::free ? "free" : "poisson") << ", " << method << ", latency "
      << latency_s << " +- " << jitter << ", transfer " << transfer_s << ", state " << state_s
      << ", empty pool " << empty_pool << ", gradients " << gradients_per_s << ", echo " << echo
      << ", " << faults.size() << " faults";
  return out.str();
}

Gossip::Gossip(const GossipSettings& settings)
    : settings_(settings),
      random_(settings.seed, 0, Purpose::test),
      nodes_(static_cast<size_t>(settings.ranks)) {
  transport_ = std::make_unique<SimulatedTransport>(
      LinkModel{settings.latency_s, settings.jitter, settings.transfer_s, 0}, settings.faults,
      settings.seed, settings.ranks, [this](double at, int to, Frame frame) {
        schedule(at, [this, to, frame = std::move(frame)] { deliver(to, frame); });
      });
  for (int rank = 0; rank < settings.ranks; ++rank) {
    Numbers x;
    for (double& value : x)
      value = random_.normal();
    member(rank).conversation = std::make_unique<Pairwise>(options(rank));
    start_rule(rank, x);
    next_gradient(rank);
  }
  reconfigure(settings.graph);
}

void Gossip::schedule(double at, std::function<void()> act) {
  queue_.push({at, ++order_, std::move(act)});
}

void Gossip::complain(bool broken, const std::string& what) {
  if (broken && complaint_.empty()) complaint_ = "at " + std::to_string(now_) + " s: " + what;
}

PairwiseOptions Gossip::options(int rank) const {
  PairwiseOptions options;
  options.pairing = settings_.pairing;
  options.rank = rank;
  options.seed = settings_.seed + (uint64_t{member(rank).incarnation} << 32);
  options.round_trip_s = 2.5 * settings_.latency_s;
  options.duration_s = settings_.transfer_s + 4 * settings_.latency_s;
  return options;
}

void Gossip::start_rule(int rank, const Numbers& x) {
  Node& node = member(rank);
  const ParameterLayout layout = ParameterLayout::flat(kGossipSize, DType::f64);
  auto rule = method_named(settings_.method)
                  .make({rank,
                         settings_.seed,
                         layout,
                         {},
                         with_optimizer({0.9, 0.01}),
                         {x.data(), x.size(), DType::f64}});
  node.rule.reset(dynamic_cast<PairwiseRule*>(rule.release()));
  node.pool.emplace(kGossipSize, DType::f64, 64);
  const Numbers y = conserved(*node.rule);
  for (size_t k = 0; k < y.size(); ++k)
    expected_[k] += y[k];
}

// --- news

void Gossip::reconfigure(const std::string& graph) {
  auto made = make_topology(graph, settings_.ranks, 1);
  GV_CHECK(static_cast<bool>(made));
  graph_ = *std::move(made);
  colours_ = edge_colouring(graph_);
  A2cid2Constants constants = *a2cid2_constants(*spectrum(graph_));
  if (settings_.pairing == Pairing::free) constants = without_repeats(constants, graph_);
  if (method_named(settings_.method).accelerated)
    eta_ = constants.eta, alpha_tilde_ = constants.alpha_tilde;
  ++epoch_;
  for (int rank = 0; rank < settings_.ranks; ++rank) {
    const double heard = epoch_ == 1 ? 0 : random_.uniform(0, kHearsay);
    schedule(now_ + heard, [this, rank, epoch = epoch_] {
      if (epoch == epoch_) learn_view(rank);
    });
  }
}

View Gossip::view_of(int rank) const {
  View view;
  view.epoch = epoch_;
  view.incarnation = member(rank).incarnation;
  view.eta = eta_;
  view.alpha_tilde = alpha_tilde_;
  for (const Neighbour& n : graph_.neighbours(rank)) {
    const Node& peer = member(n.rank);
    const auto edge = static_cast<size_t>(n.edge);
    if (!peer.told_down)
      view.edges.push_back({n.rank, peer.incarnation, graph_.edges()[edge].rate, colours_[edge]});
  }
  return view;
}

void Gossip::learn_view(int rank) {
  Node& node = member(rank);
  if (!node.alive) return;
  node.rule->set_eta(now_, eta_);
  event(rank, nullptr, [&](Effects& out) { node.conversation->view(now_, view_of(rank), out); });
}

void Gossip::kill(int rank) { member(rank).alive = false; }

void Gossip::tell_down(int rank) {
  member(rank).told_down = true;
  std::erase_if(attempts_, [rank](const auto& known) {
    return known.first.first == rank || known.first.second == rank;
  });
  for (int other = 0; other < settings_.ranks; ++other) {
    Node& node = member(other);
    if (!node.alive) continue;
    if (node.offer && node.offer->peer == rank) end_offer(node);
    event(other, nullptr, [&](Effects& out) {
      node.conversation->peer_down(now_, rank, member(rank).incarnation, out);
    });
  }
}

void Gossip::restart(int rank) {
  Node& node = member(rank);
  GV_CHECK(!node.alive);
  if (!node.told_down) tell_down(rank);
  const Numbers seen = x(graph_.neighbours(rank)[0].rank);
  ++node.incarnation;
  node.alive = true;
  node.told_down = false;
  node.alarm.clear();
  node.offer.reset();
  node.open = 0;
  node.conversation = std::make_unique<Pairwise>(options(rank));
  graves_.push_back(node.rule);
  start_rule(rank, seen);
  next_gradient(rank);
  reconfigure(graph_.name());
}

// --- events

void Gossip::run(double until_s) {
  while (!queue_.empty() && queue_.top().at <= until_s && complaint_.empty())
    step();
  now_ = std::max(now_, until_s);
}

void Gossip::step() {
  GV_CHECK(!queue_.empty());
  const Event next = queue_.top();
  queue_.pop();
  now_ = next.at;
  next.act();
}

void Gossip::finish() {
  for (int rank = 0; rank < settings_.ranks; ++rank) {
    Node& node = member(rank);
    if (node.alive)
      event(rank, nullptr, [&](Effects& out) { node.conversation->drain(now_, out); });
  }
  settings_.gradients_per_s = 0;
  for (int calm = 0, tries = 0; calm < 3 && tries < 200 && complaint_.empty(); ++tries) {
    run(now_ + 10);
    calm = quiet() ? calm + 1 : 0;
  }
}

bool Gossip::quiet() const {
  for (const Node& node : nodes_)
    if (node.alive && !node.conversation->quiet()) return false;
  return true;
}

void Gossip::next_gradient(int rank) {
  if (settings_.gradients_per_s <= 0) return;
  schedule(now_ + random_.exponential() / settings_.gradients_per_s,
           [this, rank, born = member(rank).incarnation] {
             Node& node = member(rank);
             if (!node.alive || node.incarnation != born || settings_.gradients_per_s <= 0) return;
             Numbers g;
             for (double& value : g)
               value = random_.normal();
             const Numbers before = conserved(*node.rule);
             node.rule->on_gradient(now_, 0.1, {g.data(), g.size(), DType::f64}, {});
             const Numbers after = conserved(*node.rule);
             for (size_t k = 0; k < g.size(); ++k)
               expected_[k] += after[k] - before[k];
             next_gradient(rank);
           });
}

void Gossip::deliver(int to, const Frame& frame) {
  if (to < 0 || to >= settings_.ranks) return;  // the answer to a frame from nobody
  Node& node = member(to);
  if (!node.alive) return;
  if (settings_.echo > 0 && random_.uniform() < settings_.echo)
    schedule(now_ + random_.uniform(0, 30), [this, to, frame] { deliver(to, frame); });
  event(to, &frame.header, [&](Effects& out) {
    node.conversation->frame(now_, frame.header, payload_of(frame.header, frame.payload), out);
  });
}

void Gossip::inject(const FrameHeader& header, Lease payload) {
  deliver(static_cast<int>(header.to), {header, std::move(payload)});
}

template <class Call>
void Gossip::event(int rank, const FrameHeader* cause, Call&& call) {
  Effects effects;
  call(effects);
  carry_out(rank, cause, effects);
}

void Gossip::carry_out(int rank, const FrameHeader* cause, const Effects& effects) {
  watch_offers(rank, cause, effects);
  for (const Send& s : effects.sends)
    if (s.payload) snapshots_[s.payload.vec().data] = {way_of(s.header), s.header.number};
  for (const auto& wish : effects.requests)
    request(rank, wish);
  for (const Send& s : effects.sends) {
    watch_frame(s.header);
    transport_->send(now_, s.header, s.payload.lease);
  }
  for (const Arm& a : effects.arms)
    arm(rank, a);
}

void Gossip::arm(int rank, const Arm& a) {
  Node& node = member(rank);
  const auto id = static_cast<size_t>(a.timer);
  if (node.alarm.size() <= id) node.alarm.resize(id + 1);
  const uint64_t serial = node.alarm[id] = ++serial_;
  if (a.at == kNever) return;
  complain(!(a.at >= now_), "rank " + std::to_string(rank) + " armed a timer for the past");
  schedule(a.at, [this, rank, id, serial] {
    Node& n = member(rank);
    if (n.alive && id < n.alarm.size() && n.alarm[id] == serial)
      event(rank, nullptr,
            [&](Effects& out) { n.conversation->timer(now_, static_cast<int>(id), out); });
  });
}

}  // namespace grapevine::test
