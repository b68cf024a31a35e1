#include "tests/device/judge.hpp"

#include <algorithm>
#include <utility>

namespace grapevine::testing {

std::string at(const Where& where) {
  const std::string file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}

int Judge::add(std::string name) {
  names_.push_back(std::move(name));
  clocks_.emplace_back();
  return static_cast<int>(names_.size()) - 1;
}

void Judge::merge(Clock& mine, const Clock& news) {
  if (mine.size() < news.size()) mine.resize(news.size());
  for (size_t k = 0; k < news.size(); ++k)
    mine[k] = std::max(mine[k], news[k]);
}

void Judge::learn(int who, const Clock& news) { merge(clocks_[static_cast<size_t>(who)], news); }

void Judge::tick(int who) {
  const auto k = static_cast<size_t>(who);
  if (clocks_[k].size() <= k) clocks_[k].resize(k + 1);
  ++clocks_[k][k];
}

Judge::Stamp Judge::stamp(int who, const char* what, Where where) const {
  const auto k = static_cast<size_t>(who);
  return {who, clocks_[k].size() > k ? clocks_[k][k] : 0, what, where};
}

void Judge::touch(int who, const void* from, size_t bytes, bool writes, const char* what,
                  Where where) {
  if (bytes == 0) return;
  const auto first = reinterpret_cast<uintptr_t>(from);
  const uintptr_t last = first + bytes;
  cut(first);
  cut(last);
  for (auto c = shadow_.lower_bound(first); c != shadow_.end() && c->first < last; ++c) {
    Cell& cell = c->second;
    check(who, cell.write, what, where);
    if (!writes) {
      cell.reads[who] = stamp(who, what, where);
      continue;
    }
    for (const auto& [reader, read] : cell.reads)
      check(who, read, what, where);
    cell.reads.clear();
    cell.write = stamp(who, what, where);
  }
}

void Judge::begin(int who, const void* from, size_t bytes, Where where) {
  if (bytes == 0) return;
  const auto first = reinterpret_cast<uintptr_t>(from);
  cut(first);
  cut(first + bytes);
  shadow_.erase(shadow_.lower_bound(first), shadow_.lower_bound(first + bytes));
  tick(who);
  shadow_[first] = {stamp(who, "allocates", where), {}, first + bytes};
}

void Judge::close(int who, const void* from, size_t bytes, const std::set<int>& own, Where where) {
  const auto first = reinterpret_cast<uintptr_t>(from);
  for (auto c = shadow_.lower_bound(first); c != shadow_.end() && c->first < first + bytes; ++c) {
    if (own.count(c->second.write.who) != 0) check(who, c->second.write, "frees", where);
    for (const auto& [reader, read] : c->second.reads)
      if (own.count(reader) != 0) check(who, read, "frees", where);
  }
}

bool Judge::found(const std::string& words) const {
  return std::any_of(findings_.begin(), findings_.end(), [&](const std::string& finding) {
    return finding.find(words) != std::string::npos;
  });
}

/// A cell begins at `at` from now on, if one holds it.
void Judge::cut(uintptr_t at) {
  auto cell = shadow_.upper_bound(at);
  if (cell == shadow_.begin()) return;
  --cell;
  if (cell->first == at || cell->second.end <= at) return;
  Cell right = cell->second;
  cell->second.end = at;
  shadow_.emplace(at, std::move(right));
}

void Judge::check(int who, const Stamp& before, const char* what, Where where) {
  if (before.who < 0 || before.who == who) return;
  const Clock& mine = clock(who);
  const auto k = static_cast<size_t>(before.who);
  if (k < mine.size() && mine[k] >= before.step) return;
  find("race: " + names_[k] + " " + before.what + " at " + at(before.where) + ", " +
       names_[static_cast<size_t>(who)] + " " + what + " at " + at(where) +
       ", and nothing orders them");
}

}  // namespace grapevine::testing
