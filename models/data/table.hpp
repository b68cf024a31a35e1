// Table: rows of numbers and a target, from a CSV file as spreadsheets, databases, R and Python
// write it.
//
//   text        UTF-8, with a byte order mark or without, or UTF-16 with one; plain, .gz or .xz;
//               lines end with CR LF, LF or CR, the last one with nothing, too
//   columns     separated by commas, semicolons, tabs or bars, else by spaces; where it is not by
//               commas, 1,5 is 1.5. Fields may be quoted, as RFC 4180 has it
//   names       in the first line, behind a # or not
//   target      the column called target, label, class or y in any case (also targets, labels),
//               else the last one
//   left out    a first column without a name, whatever it holds, and one called id, index or row
//               whose numbers count the rows: they number the rows
//   values      numbers, or true and false; of the target names of classes, too
#pragma once
#include <string>
#include <vector>

#include "models/files/file.hpp"

namespace grapevine {

struct Table {
  std::vector<std::string> inputs;   // the names of their columns
  Bytes rows;                        // fp32, row by row
  std::string target;                // its column's name
  std::vector<double> targets;       // numbers, or places in:
  std::vector<std::string> classes;  // in the order of their names; empty: the targets are numbers
  std::string left_out;              // a column that numbers the rows; empty: there is none

  size_t size() const { return targets.size(); }
};

/// Errors (world): the file's, or a line that does not fit: its number, its column, what it has and
/// what is accepted.
Result<Table> read_table(const std::string& path);

}  // namespace grapevine
