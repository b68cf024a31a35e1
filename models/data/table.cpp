#include "models/data/table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/base/spec.hpp"
#include "models/data/text.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostColumns = 1 << 16, kMostFieldBytes = 1 << 20, kMostClassNames = 1 << 16;
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr std::string_view kSeparators = ",;\t|";
constexpr char kBlanks = ' ';  // as a separator: any number of blanks

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back()))
    text.remove_suffix(1);
  return text;
}

// --- text

/// Returns the file's text in UTF-8, piece by piece, without its byte order mark.
class TextReader {
 public:
  explicit TextReader(ContentReader content) : content_(std::move(content)) {}

  /// Empty at the end.
  Result<std::string_view> next() {
    bytes_.resize(kept_ + kChunkBytes);
    const auto got = content_.read(std::span(bytes_).subspan(kept_));
    if (!got) return got.error();
    std::string_view piece(reinterpret_cast<const char*>(bytes_.data()), kept_ + *got);
    if (!std::exchange(begun_, true)) {
      if (piece.starts_with("\xef\xbb\xbf")) piece.remove_prefix(3);
      is_wide_ = piece.starts_with("\xff\xfe") || piece.starts_with("\xfe\xff");
      is_big_endian_ = piece.starts_with('\xfe');
      if (is_wide_) piece.remove_prefix(2);
    }
    if (!is_wide_) return piece;
    return decoded(piece, *got < kChunkBytes);
  }

 private:
  /// Keeps an incomplete character for the next piece.
  std::string_view decoded(std::string_view wide, bool is_last) {
    text_.clear();
    size_t at = 0;
    const auto unit = [&](size_t k) {
      const auto first = static_cast<uint8_t>(wide[k]), second = static_cast<uint8_t>(wide[k + 1]);
      return static_cast<uint32_t>(is_big_endian_ ? first << 8 | second : second << 8 | first);
    };
    for (; at + 2 <= wide.size(); at += 2) {
      uint32_t code = unit(at);
      if (code >> 10 == 0x36) {  // the first half of a surrogate pair
        if (at + 4 > wide.size() && !is_last) break;
        const uint32_t low = at + 4 <= wide.size() ? unit(at + 2) : 0;
        code = low >> 10 == 0x37 ? 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)) : 0xfffd;
        if (code != 0xfffd) at += 2;
      }
      append(code);
    }
    kept_ = wide.size() - at;
    std::memmove(bytes_.data(), wide.data() + at, kept_);
    return text_;
  }
  void append(uint32_t code) {
    const auto put = [this](uint32_t byte) { text_ += static_cast<char>(byte); };
    if (code < 0x80) return put(code);
    if (code < 0x800) return put(0xc0 | code >> 6), put(0x80 | (code & 63));
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 63));
    }
    put(0x80 | (code >> 6 & 63));
    put(0x80 | (code & 63));
  }

  ContentReader content_;
  Bytes bytes_;
  std::string text_;
  size_t kept_ = 0;  // bytes of bytes_ kept from the piece before
  bool begun_ = false, is_wide_ = false, is_big_endian_ = false;
};

// --- lines and fields

/// The column separator: the most frequent one outside of quotes in the first line.
char separator_of(std::string_view text) {
  std::array<size_t, kSeparators.size()> counts{};
  bool in_quotes = false, can_open = true;  // can_open: a quote at the start of a field, or doubled
  const size_t first = text.find_first_not_of(" \t\r\n");  // skip empty lines
  for (const char c : text.substr(std::min(first, text.size()))) {
    const bool is_quote = c == '"' && (in_quotes || can_open);
    if (is_quote) in_quotes = !in_quotes;
    if (in_quotes) continue;
    if (c == '\n' || c == '\r') break;
    const size_t k = kSeparators.find(c);
    if (k != kSeparators.npos) ++counts[k];
    can_open = is_quote || k != kSeparators.npos || (can_open && c == kBlanks);
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return *most == 0 ? kBlanks : kSeparators[static_cast<size_t>(most - counts.begin())];
}

/// Cuts text into lines of fields. Errors name the line, but not the file.
class LineCutter {
 public:
  using Take = std::function<Status(const std::vector<std::string>& fields)>;

  LineCutter(char separator, size_t first_line, Take take)
      : separator_(separator),
        take_(std::move(take)),
        marks_({separator, '"', '\n', '\r', ' ', '\t'}),
        line_(first_line),
        first_line_(first_line) {}

  Status add(std::string_view text) {
    while (!text.empty()) {
      const size_t plain =
          state_ == State::plain ? std::min(text.find_first_of(marks_), text.size()) : 0;
      if (plain > 0) {
        was_cr_ = false;
        has_any_ = true;
        if (Status ok = put(text.substr(0, plain)); !ok) return ok;
        text.remove_prefix(plain);
        continue;
      }
      if (Status ok = add(text.front()); !ok) return ok;
      text.remove_prefix(1);
    }
    return Done{};
  }
  Status end() {
    if (state_ == State::quoted)
      return wrong(fmt::format("a quote that is opened in it never ends"));
    return has_any_ ? end_line() : Status(Done{});
  }
  size_t line() const { return line_; }

 private:
  enum class State { plain, quoted, closing };  // closing: after a quote that may be doubled

  Status wrong(const std::string& why) const {
    return world_error(fmt::format("line {}: {}", with_commas(first_line_), why));
  }
  Status add(char c) {
    const bool follows_cr = std::exchange(was_cr_, c == '\r');
    if (c == '\n' && follows_cr && state_ != State::quoted) return Done{};
    if (c == '\n' || (c == '\r' && state_ != State::quoted)) ++line_;
    if (state_ == State::quoted) {
      if (c == '"') return state_ = State::closing, Done{};
      return put({&c, 1});
    }
    if (state_ == State::closing && c == '"') return state_ = State::quoted, put({&c, 1});
    state_ = State::plain;
    if (c == '\n' || c == '\r') return has_any_ ? end_line() : begin_line();
    has_any_ = has_any_ || (c != ' ' && c != '\t');
    if (c == '"' && trimmed(field_).empty()) return field_.clear(), state_ = State::quoted, Done{};
    if (c == separator_ && (separator_ != kBlanks || !field_.empty())) return end_field();
    return c == separator_ && separator_ == kBlanks ? Status(Done{}) : put({&c, 1});
  }
  Status put(std::string_view text) {
    field_ += text;
    return field_.size() <= kMostFieldBytes
               ? Status(Done{})
               : wrong(fmt::format("a field of more than {} bytes", with_commas(kMostFieldBytes)));
  }
  Status end_field() {
    fields_.emplace_back(trimmed(field_));
    field_.clear();
    return fields_.size() <= kMostColumns
               ? Status(Done{})
               : wrong(fmt::format("more than {} columns", with_commas(kMostColumns)));
  }
  Status end_line() {
    if (separator_ != kBlanks || !field_.empty())
      if (Status ok = end_field(); !ok) return ok;
    const Status taken = take_(fields_);
    if (!taken) return wrong(taken.error().message);
    return begin_line();
  }
  Status begin_line() {
    fields_.clear();
    field_.clear();
    has_any_ = false;
    first_line_ = line_;
    return Done{};
  }

  const char separator_;
  const Take take_;
  const std::string marks_;  // characters that end a run of plain text
  State state_ = State::plain;
  bool was_cr_ = false, has_any_ = false;
  size_t line_, first_line_;
  std::string field_;
  std::vector<std::string> fields_;
};

// --- values

bool is_missing(const std::string& lower) {
  constexpr std::string_view kMissing[] = {"", "na", "n/a", "nan", "null", "none", "?", "-"};
  return std::find(std::begin(kMissing), std::end(kMissing), lower) != std::end(kMissing);
}

/// Empty: it is no number that fp32 can hold.
std::optional<double> value_of(std::string_view field, bool decimal_comma) {
  if (field.starts_with('+')) field.remove_prefix(1);
  std::string with_point;
  if (decimal_comma && field.find(',') != field.npos && field.find('.') == field.npos) {
    with_point = field;
    with_point[field.find(',')] = '.';
    field = with_point;
  }
  if (const auto number = number_of<double>(field)) {
    const bool fits = std::abs(*number) <= double{std::numeric_limits<float>::max()};
    return fits ? number : std::nullopt;
  }
  const std::string lower = in_lower_case(field);
  if (lower == "true" || lower == "false") return lower == "true";
  return std::nullopt;
}

/// Also true of a number that no fp32 holds: 1e99 and inf are no names of classes.
bool reads_as_number(const std::string& lower) {
  std::string_view digits = lower;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double value;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  return error != std::errc::invalid_argument && stop == end;
}

/// Numbers; or names of classes if the first value is no number.
class TargetColumn {
 public:
  Status add(const std::string& field, bool decimal_comma) {
    const auto number = value_of(field, decimal_comma);
    const std::string lower = in_lower_case(field);
    if (values_.empty()) is_text_ = !number && !is_missing(lower) && !reads_as_number(lower);
    if (!is_text_ && !number) return world_error("");
    if (is_text_ && (lower.empty() || lower.find('\0') != lower.npos)) return world_error("");
    if (!is_text_) return values_.push_back(*number), Done{};
    const auto [at, is_new] = names_.try_emplace(field, names_.size());
    if (is_new && names_.size() > kMostClassNames)
      return world_error(
          fmt::format("more than {} names of classes", with_commas(kMostClassNames)));
    return values_.push_back(static_cast<double>(at->second)), Done{};
  }

  size_t bytes() const { return values_.size() * sizeof(double); }

  /// Numbers the classes in the order of their names.
  void finish(Table& table) {
    table.targets = std::move(values_);
    if (!is_text_) return;
    std::vector<double> places(names_.size());
    for (const auto& [name, number] : names_) {
      places[number] = static_cast<double>(table.classes.size());
      table.classes.push_back(name);
    }
    for (double& value : table.targets)
      value = places[static_cast<size_t>(value)];
  }

 private:
  bool is_text_ = false;
  std::vector<double> values_;
  std::map<std::string, size_t> names_;
};

/// Takes the lines of a table; the first line has the columns' names.
class TableMaker {
 public:
  explicit TableMaker(char separator) : decimal_comma_(separator != ',') {}

  Status take(const std::vector<std::string>& fields) {
    const auto is_empty = [](const std::string& field) { return field.empty(); };
    if (std::all_of(fields.begin(), fields.end(), is_empty)) return Done{};
    if (names_.empty()) return take_names(fields);
    if (!std::exchange(has_rows_, true)) choose_columns(fields.size());
    size_t count = fields.size();
    if (ends_with_separator_ && count == names_.size() + 1 && fields.back().empty()) --count;
    if (count != names_.size())
      return world_error(fmt::format("{} columns, accepted: {}, as in the first line",
                                     with_commas(fields.size()), with_commas(names_.size())));
    for (size_t k = numbers_rows_; k < count; ++k)
      if (Status ok = take_value(k, fields[k]); !ok) return ok;
    return Done{};
  }

  size_t bytes() const { return table_.rows.size() + targets_.bytes(); }

  Result<Table> finish() {
    if (names_.empty()) return world_error("is empty, accepted: a line with the columns' names");
    targets_.finish(table_);
    table_.target = names_[target_];
    for (size_t k = numbers_rows_; k < names_.size(); ++k)
      if (k != target_) table_.inputs.push_back(names_[k]);
    if (numbers_rows_ > 0) table_.left_out = names_[0];
    leave_out_numbers();
    return std::move(table_);
  }

 private:
  Status take_names(const std::vector<std::string>& fields) {
    names_ = fields;
    if (names_[0].starts_with('#')) names_[0] = trimmed(std::string_view(names_[0]).substr(1));
    ends_with_separator_ = names_.size() > 1 && names_.back().empty();
    if (ends_with_separator_) names_.pop_back();
    const auto is_number = [this](const std::string& name) {
      return value_of(name, decimal_comma_).has_value();
    };
    if (std::all_of(names_.begin(), names_.end(), is_number))
      return world_error(excerpt(names_[0]) + ", accepted: first a line with the columns' names");
    if (names_.size() < 2)
      return world_error(
          "1 column, accepted: 2 or more, separated by commas, semicolons, tabs or bars");
    return choose_target();
  }

  Status choose_target() {
    target_ = names_.size() - 1;
    for (const char* usual : {"target", "label", "targets", "labels", "class", "y"}) {
      std::vector<size_t> found;
      for (size_t k = 0; k < names_.size(); ++k)
        if (in_lower_case(names_[k]) == usual) found.push_back(k);
      if (found.size() > 1)
        return world_error(fmt::format("columns {} and {} are both called {}, accepted: one",
                                       found[0] + 1, found[1] + 1, usual));
      if (!found.empty()) return target_ = found[0], Done{};
    }
    return Done{};
  }

  // A first column without a name numbers the rows. R writes no name for it, not even an empty one.
  void choose_columns(size_t count_in_row) {
    if (count_in_row == names_.size() + 1 && !ends_with_separator_) {
      names_.insert(names_.begin(), "");
      ++target_;
    }
    const bool is_unnamed = names_[0].empty() || names_[0].starts_with("Unnamed:");
    numbers_rows_ = is_unnamed && names_.size() > 2;
    if (numbers_rows_ && names_[0].empty()) names_[0] = "without a name";
    for (size_t k = 0; k < names_.size(); ++k)
      if (names_[k].empty()) names_[k] = fmt::format("column {}", k + 1);
  }

  Status take_value(size_t column, const std::string& field) {
    Status ok = Done{};
    if (column == target_) {
      ok = targets_.add(field, decimal_comma_);
    } else if (const auto value = value_of(field, decimal_comma_)) {
      const auto number = static_cast<float>(*value);
      const auto* first = reinterpret_cast<const uint8_t*>(&number);
      table_.rows.insert(table_.rows.end(), first, first + sizeof number);
      if (column == 0) see_number(*value);
    } else {
      ok = world_error("");
    }
    if (ok || !ok.error().message.empty()) return ok;
    return world_error(fmt::format("column {} has {}, accepted: a number", excerpt(names_[column]),
                                   field.empty() ? "nothing" : excerpt(field)));
  }

  // Checks whether the first column counts 0, 1, 2 or 1, 2, 3.
  void see_number(double value) {
    if (seen_ == 0) first_number_ = value;
    counts_rows_ = counts_rows_ && value == first_number_ + static_cast<double>(seen_) &&
                   (first_number_ == 0 || first_number_ == 1);
    ++seen_;
  }

  void leave_out_numbers() {
    const std::string name = in_lower_case(names_[0]);
    const bool is_named_so =
        name == "id" || name == "index" || name == "row" || name == "rownames" || name == "_id";
    const size_t columns = table_.inputs.size();
    if (!is_named_so || !counts_rows_ || seen_ < 2 || numbers_rows_ > 0 || target_ == 0 ||
        columns < 2)
      return;
    table_.left_out = names_[0];
    table_.inputs.erase(table_.inputs.begin());
    const size_t wide = columns * sizeof(float), narrow = wide - sizeof(float);
    for (size_t row = 0; row < table_.size(); ++row)
      std::memmove(table_.rows.data() + row * narrow,
                   table_.rows.data() + row * wide + sizeof(float), narrow);
    table_.rows.resize(table_.size() * narrow);
  }

  const bool decimal_comma_;
  std::vector<std::string> names_;
  // numbers_rows_: first columns that number the rows, 0 or 1.
  size_t target_ = 0, numbers_rows_ = 0;
  bool ends_with_separator_ = false, has_rows_ = false;
  Table table_;
  TargetColumn targets_;
  size_t seen_ = 0;  // values of the first column
  double first_number_ = 0;
  bool counts_rows_ = true;
};

/// The separator in Excel's optional first line, "sep=;".
std::optional<char> announced_separator(std::string_view text) {
  const bool is_one = text.size() > 5 && in_lower_case(text.substr(0, 4)) == "sep=" &&
                      (text[5] == '\n' || text[5] == '\r');
  return is_one ? std::optional(text[4]) : std::nullopt;
}

size_t fields_in(std::string_view line, char separator) {
  size_t count = 1;
  for (size_t k = 0; k < line.size(); ++k) {
    const bool is_run = separator == kBlanks && (k == 0 || line[k - 1] == kBlanks);
    count += line[k] == separator && !is_run;
  }
  return count;
}

/// REQUIRES: its first line has an end.
std::string_view behind_line(std::string_view text) {
  text.remove_prefix(text.find_first_of("\r\n"));
  return text.substr(text.starts_with("\r\n") ? 2 : 1);
}

/// Removes the comments before a table: lines that begin with #. The last of them may hold the
/// columns' names, as NumPy writes them: it does if it has as many fields as the line after it.
/// Returns the number of removed lines.
size_t skip_comments(std::string_view& text) {
  const auto line_of = [](std::string_view all) {
    return trimmed(all.substr(0, all.find_first_of("\r\n")));
  };
  size_t skipped = 0;
  for (; text.starts_with('#') && text.find_first_of("\r\n") != text.npos; ++skipped) {
    const std::string_view behind = behind_line(text);
    const char separator = separator_of(behind);
    const size_t fields = fields_in(line_of(behind), separator);
    const std::string_view names = trimmed(line_of(text).substr(1));
    if (!behind.starts_with('#') && fields > 1 && fields_in(names, separator) == fields) {
      text.remove_prefix(1);
      break;
    }
    text = behind;
  }
  return skipped;
}

}  // namespace

Result<Table> read_table(const std::string& path) {
  auto content = ContentReader::open(path);
  if (!content) return content.error();
  TextReader text(std::move(*content));
  auto piece = text.next();
  if (!piece) return piece.error();
  const auto announced = announced_separator(*piece);
  if (announced) *piece = behind_line(*piece);
  const size_t first_line = 1 + announced.has_value() + skip_comments(*piece);
  const char separator = announced.value_or(separator_of(*piece));
  TableMaker maker(separator);
  LineCutter lines(separator, first_line,
                   [&maker](const auto& fields) { return maker.take(fields); });
  const auto refused = [&path](const Status& why) {
    return world_error(fmt::format("{}, {}", path, why.error().message));
  };
  while (!piece->empty()) {
    if (const Status ok = lines.add(*piece); !ok) return refused(ok);
    if (const Status fits = fits_in_memory(maker.bytes()); !fits)  // for what grows, as much again
      return world_error(fmt::format("{} {}", path, fits.error().message));
    piece = text.next();
    if (!piece) return piece.error();
  }
  if (const Status ok = lines.end(); !ok) return refused(ok);
  auto table = maker.finish();
  if (!table) return world_error(fmt::format("{} {}", path, table.error().message));
  return table;
}

}  // namespace grapevine
