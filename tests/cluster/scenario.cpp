#include "tests/cluster/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

namespace grapevine::test {

namespace {

constexpr double kFaultsFrom_s = 3, kFaultsTo_s = 15;
constexpr double kNap_s = 2;  // of who stands still in a gentle run: nobody takes it for dead

NetworkModel model_of(uint64_t seed) {
  Random random(seed, 2, Purpose::test);
  NetworkModel model;
  model.latency_s = 2e-4 * std::exp(4 * random.uniform());
  return model;
}

}  // namespace

Scenario::Scenario(uint64_t seed, std::optional<DeviceLink> on_devices)
    : seed_(seed), random_(seed, 0, Purpose::test), cluster_(model_of(seed), seed) {
  if (on_devices) cluster_.use_devices(seed);
  draw_settings();
  if (on_devices) settings_.device_link = *on_devices;
}

void Scenario::draw_settings() {
  Settings& s = settings_;
  const int hosts = 3 + static_cast<int>(random_.below(3));
  s.ranks = 0;
  for (int h = 0; h < hosts; ++h) {
    first_of_.push_back(s.ranks);
    ranks_of_.push_back(1 + static_cast<int>(random_.below(3)));
    s.ranks += ranks_of_.back();
  }
  const bool grows = random_.below(6) == 0;
  total_ranks_ = grows ? 0 : s.ranks;
  somebody_came_ = grows;
  if (grows || random_.below(3) == 0) first_of_.assign(first_of_.size(), -1);
  s.clock = Clock::simulated;
  s.seed = seed_;
  const char* methods[] = {"a2cid2", "a2cid2", "a2cid2",     "ad_psgd",  "ad_psgd",
                           "sgp",    "d_psgd", "all_reduce", "relaysgd", "relaysgd_async"};
  s.method = methods[random_.below(10)];
  s.pairing = random_.below(4) == 0 ? Pairing::poisson : Pairing::free;
  s.topology = topology();
  s.gradient_s = random_.uniform(0.05, 0.15);
  s.speed_spread = 0.3 * random_.uniform();
  by_share_ = random_.below(3) == 0;
  gentle_ = random_.below(3) == 0;
  s.gradients = by_share_ ? static_cast<uint64_t>(s.ranks) *
                                static_cast<uint64_t>(std::lround(45 / s.gradient_s))
                          : 0;
  s.lr = {0.01, Schedule::constant, 0};
  s.rule = with_optimizer({});
  s.sample_s = 0;
  s.link.latency_s = 0.01;  // how often a node looks whether its ranks are quiet
  if (random_.below(3) == 0) {
    LinkFault loss;
    loss.probability = 0.1 * random_.uniform();
    loss.at = kFaultsFrom_s;
    loss.until = kFaultsTo_s;
    s.plan.link_faults.push_back(loss);
  }
  while (!check(s))  // a graph that needs another number of ranks
    s.topology = topology();
}

std::string Scenario::topology() {
  if (settings_.method == "relaysgd" || settings_.method == "relaysgd_async") {
    const char* trees[] = {"chain", "star", "binary-tree"};
    return trees[random_.below(3)];
  }
  const char* graphs[] = {"ring", "complete", "exponential", "star", "chain"};
  return graphs[random_.below(5)];
}

std::string Scenario::name() const {
  std::ostringstream out;
  out << "seed " << seed_ << ": " << settings_.method << " on a " << settings_.topology << ", "
      << settings_.ranks << " ranks on " << first_of_.size() << " nodes, "
      << (total_ranks_ == 0 ? "growing, " : "") << (first_of_[0] < 0 ? "any ranks, " : "")
      << (by_share_ ? "ends by itself" : "is stopped") << (gentle_ ? ", gentle" : "")
      << ", a gradient in " << settings_.gradient_s << " s;" << faults_;
  return out.str();
}

void Scenario::complain(const std::string& what) {
  if (complaint_.empty()) complaint_ = what + " at " + std::to_string(cluster_.now()) + " s";
}

std::vector<int> Scenario::other_hosts(int host) {
  std::vector<int> others;
  for (int h = 0; h < static_cast<int>(ranks_of_.size()); ++h)
    if (h != host) others.push_back(h);
  return others;
}

void Scenario::found() {
  const auto hosts = static_cast<int>(ranks_of_.size());
  for (int h = 0; h < hosts; ++h) {
    settings_.local_ranks = ranks_of_[static_cast<size_t>(h)];
    cluster_.start(h, settings_, first_of_[static_cast<size_t>(h)], total_ranks_,
                   h == 0 ? std::vector<int>{} : std::vector<int>{0});
    if (random_.below(2) == 0) cluster_.run(cluster_.now() + 0.3 * random_.uniform());
  }
}

void Scenario::run() {
  found();
  for (double at = kFaultsFrom_s; at < kFaultsTo_s && complaint_.empty();
       at += 1.5 * random_.exponential()) {
    if (gentle_ && at > cluster_.now() + kNap_s) {
      cluster_.run(cluster_.now() + kNap_s);
      wake_all();
    }
    cluster_.run(at);
    fault();
  }
  if (gentle_ && cluster_.now() + kNap_s < kFaultsTo_s) {
    cluster_.run(cluster_.now() + kNap_s);
    wake_all();
  }
  cluster_.run(kFaultsTo_s);
  heal();
  agree();
  if (complaint_.empty()) train_on();
  if (complaint_.empty()) finish();
  if (complaint_.empty()) check_ends();
}

// --- what goes wrong

int Scenario::running() {
  int sum = 0;
  for (int p = 0; p < cluster_.count(); ++p)
    sum += cluster_.running(p) && !cluster_.at(p).leaving;
  return sum;
}

int Scenario::someone() {
  if (running() == 0) return -1;
  for (;;) {
    const auto p = static_cast<int>(random_.below(static_cast<uint32_t>(cluster_.count())));
    if (cluster_.running(p) && !cluster_.at(p).leaving) return p;
  }
}

int Scenario::newest(int host) {
  int last = -1;
  for (int p = 0; p < cluster_.count(); ++p)
    if (cluster_.at(p).host == host) last = p;
  return last;
}

void Scenario::fault() {
  for (int p = 0; p < cluster_.count(); ++p)
    if (cluster_.at(p).stopped && (gentle_ || random_.below(2) == 0)) {
      note("go_on " + cluster_.at(p).name);
      cluster_.go_on(p);
    }
  if (random_.below(3) == 0) {
    note("heal");
    cluster_.network().heal();
  }
  const uint32_t gentle[] = {2, 4, 4, 8};
  act(gentle_ ? gentle[random_.below(4)] : random_.below(10));
}

void Scenario::act(uint32_t what) {
  const int p = someone(), q = someone();
  if (p < 0) return;
  const auto& here = cluster_.at(p);
  const bool spare = running() > 2;
  const auto hosts = static_cast<int>(ranks_of_.size());
  if (what <= 1 && spare) {  // a kill, or a polite end
    somebody_died_ |= what == 0;
    note((what == 0 ? "kill " : "leave ") + here.name);
    what == 0 ? cluster_.kill(p) : cluster_.leave(p);
  } else if (what == 2 && spare) {
    note("stop " + here.name);
    cluster_.stop(p);
  } else if (what == 3 && p != q) {
    note("cut " + here.name + " -> " + cluster_.at(q).name);
    cluster_.network().cut(here.host, cluster_.at(q).host);
  } else if (what == 4 && p != q) {
    note("break " + here.name + " - " + cluster_.at(q).name);
    cluster_.network().break_link(p, q);
  } else if (what == 5) {
    note("part " + here.name + " " + cluster_.at(q).name);
    for (int h = 0; h < hosts; ++h) {
      if (h == here.host || h == cluster_.at(q).host) continue;
      for (const int side : {here.host, cluster_.at(q).host}) {
        cluster_.network().cut(h, side);
        cluster_.network().cut(side, h);
      }
    }
  } else if (what == 6 && hosts < 8) {
    somebody_came_ = true;
    ranks_of_.push_back(1 + static_cast<int>(random_.below(3)));
    note("join " + SimulatedCluster::name_of(hosts));
    settings_.local_ranks = ranks_of_.back();
    cluster_.start(hosts, settings_, -1, total_ranks_, other_hosts(hosts));
  } else if (what == 7) {  // a dead one comes back
    const int h = static_cast<int>(random_.below(static_cast<uint32_t>(hosts)));
    if (cluster_.at(newest(h)).alive) return;
    somebody_came_ = true;
    note("restart " + SimulatedCluster::name_of(h));
    settings_.local_ranks = ranks_of_[static_cast<size_t>(h)];
    const bool founder = h < static_cast<int>(first_of_.size());
    cluster_.start(h, settings_, founder ? first_of_[static_cast<size_t>(h)] : -1, total_ranks_,
                   other_hosts(h));
  } else if (what >= 8) {
    const std::string graph = topology();
    note("graph " + graph + " by " + here.name);
    cluster_.ask(p, ConsoleVerb::reconfigure, graph);
  }
}

void Scenario::heal() {
  cluster_.network().heal();
  wake_all();
}

void Scenario::wake_all() {
  for (int p = 0; p < cluster_.count(); ++p)
    cluster_.go_on(p);
}

// --- what is told of it

uint64_t Scenario::log_hash() {
  uint64_t hash = cluster_.log_hash();
  for (int p = 0; p < cluster_.count(); ++p)
    if (const auto& end = cluster_.at(p).ending; end && end->mean) hash ^= end->mean->hash;
  return hash;
}

std::string Scenario::lines() {
  std::vector<std::string> all;
  for (int p = 0; p < cluster_.count(); ++p)
    for (const std::string& line : cluster_.at(p).lines) {
      const size_t space = line.find(' ');
      std::string at = line.substr(0, space);
      all.push_back(std::string(12 - std::min<size_t>(12, at.size()), ' ') + at + " " +
                    cluster_.at(p).name + line.substr(space));
    }
  std::sort(all.begin(), all.end());
  return std::accumulate(
      all.begin(), all.end(), std::string(),
      [](std::string s, const std::string& l) { return std::move(s) + l + "\n"; });
}

}  // namespace grapevine::test
