// The house rules that a program can check: which room may include what, and how long a
// file, a function or a line may be.
//
// A tree is {path from the root, text}. Each complaint is one line, `path:line: what, and which
// rule`. Reading is by line: it knows no macros, and takes a function to start at column 0 and to
// end with a lone brace there.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace grapevine::tidy {

using Tree = std::map<std::string, std::string>;
using Complaints = std::vector<std::string>;

/// Arrows between rooms and third-party includes, as one file shows them by itself, and whether it
/// lies in a room.
Complaints check_includes(const std::string& path, const std::string& text);

/// Lengths of files, functions and lines, and banned words.
Complaints check_style(const std::string& path, const std::string& text);

/// Third-party headers that a file reaches through headers of ours, and may not see.
Complaints check_reach(const Tree&);

/// The walks that a table in `readme`, of the folder `room`, tells: rows `| walk | files: N |`.
/// Each file in backquotes before its N is in the tree, they are N, and N is not above its bound.
struct Walk {
  std::string name;  // how the row begins
  size_t bound;
};
Complaints check_walks(const std::string& room, const std::string& readme,
                       const std::vector<Walk>& walks, const Tree&);

std::string text_of(const std::string& path);

/// Every source of the rooms below `root`.
Tree read_tree(const std::string& root);

}  // namespace grapevine::tidy
