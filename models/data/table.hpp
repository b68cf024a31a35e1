// Table: rows of numbers and a target, from a CSV file as spreadsheets, databases, R and Python
// write it.
//
//   text        UTF-8, with or without a byte order mark, or UTF-16 with one; plain, .gz or .xz.
//               Lines end with CR LF, LF or CR; the last line may have no end
//   columns     separated by commas, semicolons, tabs or bars, else by spaces. Unless commas
//               separate them, 1,5 means 1.5. Fields may be quoted as in RFC 4180
//   names       in the first line, with or without a # before them
//   target      the column called target, label, class or y in any case (also targets, labels),
//               else the last column
//   left out    columns that number the rows: a first column without a name, whatever it holds,
//               and a column called id, index or row whose numbers count the rows
//   values      numbers, or true and false; for the target also names of classes
#pragma once
#include <string>
#include <vector>

#include "models/files/file.hpp"

namespace grapevine {

struct Table {
  std::vector<std::string> inputs;   // the names of their columns
  Bytes rows;                        // fp32, row by row
  std::string target;                // its column's name
  std::vector<double> targets;       // numbers, or indices into:
  std::vector<std::string> classes;  // sorted; empty: the targets are numbers
  std::string left_out;              // a column that numbers the rows; empty: there is none

  size_t size() const { return targets.size(); }
};

/// Errors (world): those of the file; or a line that does not fit: its number, its column, what it
/// has and what is accepted.
Result<Table> read_table(const std::string& path);

}  // namespace grapevine
