// The rules that a program can check: which folder may include what, and how long a
// file, a function or a line may be.
//
// A tree is {path from the root, text}. Each complaint is one line, `path:line: what, and which
// rule`. Reading is by line: it knows no macros, and takes a function to start at column 0 and to
// end with a lone brace there.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

namespace grapevine::tidy {

using Tree = std::map<std::string, std::string>;
using Complaints = std::vector<std::string>;
using Files = std::set<std::string>;  // paths from the root

/// Includes of other folders and of third-party libraries in one file, and whether the file is in a
/// folder of the layers.
Complaints check_includes(const std::string& path, const std::string& text);

/// Lengths of files, functions and lines, and banned words.
Complaints check_style(const std::string& path, const std::string& text);

/// Lengths of lines of a Python file, with all that stands in them.
Complaints check_script(const std::string& path, const std::string& text);

/// Third-party headers that a file reaches through headers of ours, and may not see.
Complaints check_reach(const Tree&);

/// The walks that a page tells: `## NAME: N files`, and a table whose rows begin with a file in
/// backquotes, by its path without an ending. Each is there, and they are N.
Complaints check_walks(const std::string& page, const std::string& text, const Files&);

/// A folder's page has at most 60 lines, and the files in the first column of its tables of files
/// (their heads begin `| file |`) are there.
Complaints check_page(const std::string& page, const std::string& text, const Files&);

/// A file that a comment names is there, by its path or the end of it. `endings`: endings_of().
Complaints check_names(const std::string& path, const std::string& text, const Files& endings);

/// The pages that must be there: one in every folder.
std::vector<std::string> pages();

std::string text_of(const std::string& path);

/// Every source of the folders below `root`.
Tree read_tree(const std::string& root);

/// Every file of the root and of the folders below it.
Files list_files(const std::string& root);
/// The paths, and all their ends that begin with a folder or a file.
Files endings_of(const Files&);

}  // namespace grapevine::tidy
