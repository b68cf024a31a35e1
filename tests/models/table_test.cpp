// Tables as other programs write them.
#include "models/data/table.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "models/data/own_data.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {
namespace {

using Catch::Contains;
using test::Scratch;

class Tables {
 public:
  Table read(const std::string& text) const {
    auto table = read_table(scratch_.file("t.csv", text));
    if (!table) FAIL(table.error().message);
    return std::move(*table);
  }
  std::string complaint(const std::string& text) const {
    const auto table = read_table(scratch_.file("t.csv", text));
    REQUIRE_FALSE(table);
    CHECK(table.error().message.find('\n') == std::string::npos);
    return table.error().message;
  }
  const Scratch& scratch() const { return scratch_; }

 private:
  const Scratch scratch_;
};

std::vector<float> rows_of(const Table& table) {
  std::vector<float> rows(table.rows.size() / sizeof(float));
  std::memcpy(rows.data(), table.rows.data(), table.rows.size());
  return rows;
}

using Names = std::vector<std::string>;
using Numbers = std::vector<double>;

std::string in_utf16(const std::string& ascii, bool big_endian) {
  std::string wide = big_endian ? "\xfe\xff" : "\xff\xfe";
  for (const char c : ascii)
    wide += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return wide;
}

}  // namespace

TEST_CASE("A table is the same however a program writes it") {
  const Tables tables;
  const std::string plain = "a,label,b\n1.5,0,2\n-3,1,4e2\n";
  const std::string rest = "label,b\n1.5,0,2\n-3,1,4e2\n";
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"plain", plain},
      {"a byte order mark", "\xef\xbb\xbf" + plain},
      {"UTF-16, little-endian", in_utf16(plain, false)},
      {"UTF-16, big-endian", in_utf16(plain, true)},
      {"CR LF", "a,label,b\r\n1.5,0,2\r\n-3,1,4e2\r\n"},
      {"CR", "a,label,b\r1.5,0,2\r-3,1,4e2\r"},
      {"no last line feed", "a,label,b\n1.5,0,2\n-3,1,4e2"},
      {"empty lines", "\na,label,b\n\n1.5,0,2\n-3,1,4e2\n\n \n"},
      {"empty rows of a spreadsheet", plain + ",,\n,,\n"},
      {"spaces", " a , label , b \n 1.5 , 0 , 2 \n -3 , 1 , 4e2 \n"},
      {"quotes", "\"a\",\"label\",\"b\"\n\"1.5\",\"0\",\"2\"\n\"-3\",\"1\",\"4e2\"\n"},
      {"semicolons", "a;label;b\n1.5;0;2\n-3;1;4e2\n"},
      {"semicolons and decimal commas", "a;label;b\n1,5;0;2\n-3;1;4e2\n"},
      {"a separator that is announced", "sep=;\r\na;label;b\r\n1,5;0;2\r\n-3;1;4e2\r\n"},
      {"tabs", "a\tlabel\tb\n1.5\t0\t2\n-3\t1\t4e2\n"},
      {"bars", "a|label|b\n1.5|0|2\n-3|1|4e2\n"},
      {"spaces between columns", "a label b\n1.5 0  2\n-3   1 4e2\n"},
      {"a comment's mark", "# " + plain},
      {"a last separator", "a;label;b;\n1.5;0;2;\n-3;1;4e2;\n"},
      {"a plus", "a,label,b\n+1.5,+0,+2\n-3,1,+4e2\n"},
      {"pandas, with its index", ",a," + rest.substr(0, 8) + "0,1.5,0,2\n1,-3,1,4e2\n"},
      {"pandas, read and written again", "Unnamed: 0,a,label,b\n0,1.5,0,2\n1,-3,1,4e2\n"},
      {"a database's id", "id,a,label,b\n1,1.5,0,2\n2,-3,1,4e2\n"},
      {"R, with names of rows", "\"\",\"a\",\"label\",\"b\"\n\"x y\",1.5,0,2\n\"z\",-3,1,4e2\n"},
      {"R, without a name above them", "\"a\" \"label\" \"b\"\n\"1\" 1.5 0 2\n\"2\" -3 1 4e2\n"},
  };
  for (const auto& [way, text] : ways) {
    INFO(way);
    const Table table = tables.read(text);
    CHECK(table.inputs == Names{"a", "b"});
    CHECK(rows_of(table) == std::vector<float>{1.5f, 2, -3, 400});
    CHECK(table.target == "label");
    CHECK(table.targets == Numbers{0, 1});
    CHECK(table.classes.empty());
  }
  const auto packed = read_table(
      tables.scratch().file("t.csv.gz", test::gzipped(Bytes(plain.begin(), plain.end()))));
  REQUIRE(packed);
  CHECK(packed->targets == Numbers{0, 1});
}

TEST_CASE("Comments in front of a table are passed over, and names in one are names") {
  const Tables tables;
  for (const std::string text :
       {"# made by R on Monday\na,label\n1.5,0\n", "# made by R on Monday\ra,label\r1.5,0\r",
        "# made by R, on Monday, in Bern\r\n#\r\na,label\r\n1.5,0\r\n", "# a,label\n1.5,0\n",
        "#a,label\n1.5,0\n", "# units: m\n# a label\n1.5 0\n", "sep=;\n#;;;\na;label\n1,5;0\n"}) {
    INFO(text);
    const Table table = tables.read(text);
    CHECK(table.inputs == Names{"a"});
    CHECK(rows_of(table) == std::vector<float>{1.5f});
    CHECK(table.target == "label");
  }
  CHECK_THAT(tables.complaint("# one\n# two\na,b\n1,2\nx,3\n"), Contains("line 5: column \"a\""));
  CHECK_THAT(tables.complaint("sep=;\na;b\nx;3\n"), Contains("line 3: column \"a\""));
  CHECK_THAT(tables.complaint("# one\n"), Contains("t.csv"));
  CHECK(tables.read("a,#\n1,2\n").target == "#");
}

TEST_CASE("Fields may be quoted with separators, quotes and line ends in them") {
  const Tables tables;
  const Table table = tables.read("\"a, \"\"b\"\"\",\"c\r\nd\",label\n1,2,0\n");
  CHECK(table.inputs == Names{"a, \"b\"", "c\r\nd"});
  CHECK_THAT(tables.complaint("a,b\n1,\"2\n"), Contains("line 2: a quote"));
  const Table inches = tables.read("height 5\",a,label\n1,2,0\n");
  CHECK(inches.inputs == Names{"height 5\"", "a"});
  CHECK(tables.read("\"a, \"\"b\"\", c; d; e; f\",label\n1,0\n").target == "label");
}

TEST_CASE("The target is the column that is called so, in any case, and else the last one") {
  const Tables tables;
  CHECK(tables.read("TARGET,a\n1,2\n").target == "TARGET");
  CHECK(tables.read("a,Label,b\n1,2,3\n").target == "Label");
  CHECK(tables.read("y,x\n1,2\n").target == "y");
  CHECK(tables.read("label,target,a\n1,2,3\n").target == "target");
  CHECK(tables.read("price,rooms\n1,2\n").target == "rooms");
  CHECK_THAT(tables.complaint("label,a,Label\n1,2,3\n"),
             Contains("columns 1 and 3 are both called label"));
}

TEST_CASE("A target of names is classes, numbered in their order") {
  const Tables tables;
  const Table table = tables.read("a,species\n1,setosa\n2,\"virginica\"\n3,setosa\n4,albus\n");
  CHECK(table.classes == Names{"albus", "setosa", "virginica"});
  CHECK(table.targets == Numbers{1, 2, 1, 0});
  CHECK(tables.read("a,label\n1,True\n2,FALSE\n").targets == Numbers{1, 0});
  CHECK_THAT(tables.complaint("a,label\n1,2\n3,cat\n"),
             Contains("line 3: column \"label\" has \"cat\", accepted: a number"));
  CHECK_THAT(tables.complaint("a,label\n1,cat\n3,\n"), Contains("column \"label\" has nothing"));
  for (const std::string first : {"inf", "-Infinity", "1e99", "1e999", "+1e999"})
    CHECK_THAT(tables.complaint("a,label\n1," + first + "\n2,3\n"),
               Contains("column \"label\" has \"" + first + "\", accepted: a number"));
}

TEST_CASE("A packed table that grows beyond the memory is refused before it has taken all of it") {
  const Tables tables;
  constexpr size_t kRows = 10'000'000, kLeft = size_t{60} << 20;
  std::string path;
  {
    Bytes text{'a', ',', 'b', '\n'};
    for (size_t k = 0; k < kRows; ++k)
      text.insert(text.end(), {'1', ',', '1', '\n'});
    path = tables.scratch().file("t.csv.gz", test::gzipped(text));
  }
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit now = before;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  now.rlim_cur = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + kLeft;
  REQUIRE(setrlimit(RLIMIT_AS, &now) == 0);
  const auto table = read_table(path);
  setrlimit(RLIMIT_AS, &before);
  REQUIRE_FALSE(table);
  CHECK_THAT(table.error().message, Contains("bytes of memory, of which"));
}

TEST_CASE("Columns that number the rows are left out, and others of such names are not") {
  const Tables tables;
  CHECK(tables.read(",a,label\nx,1,0\ny,2,1\n").left_out == "without a name");
  CHECK(tables.read("id,a,label\n0,1,0\n1,2,1\n").left_out == "id");
  CHECK(tables.read("id,a,label\n7,1,0\n3,2,1\n").inputs == Names{"id", "a"});
  CHECK(tables.read("index,label\n0,0\n1,1\n").inputs == Names{"index"});  // the only input
}

TEST_CASE("A table that cannot be read is refused with its line, its column and what is accepted") {
  const Tables tables;
  CHECK_THAT(tables.complaint("a,b\n1,2\n1\n"), Contains("t.csv, line 3: 1 columns, accepted: 2"));
  CHECK_THAT(tables.complaint("a,b\nx,1\n"), Contains("line 2: column \"a\" has \"x\""));
  CHECK_THAT(tables.complaint("a,b\n,1\n"), Contains("column \"a\" has nothing"));
  CHECK_THAT(tables.complaint("a,b\nnan,1\n"), Contains("column \"a\" has \"nan\""));
  CHECK_THAT(tables.complaint("a,b\n1e999,1\n"), Contains("1e999"));
  CHECK_THAT(tables.complaint("a,b\n1e39,1\n"), Contains("1e39"));
  CHECK_THAT(tables.complaint("a,b\n\"2,5\",1\n"), Contains("2,5"));
  CHECK_THAT(tables.complaint("1,2\n3,4\n"), Contains("first a line with the columns' names"));
  CHECK_THAT(tables.complaint("a\n1\n"), Contains("2 or more"));
  CHECK_THAT(tables.complaint(""), Contains("is empty"));
  CHECK_THAT(tables.complaint("a,b\n" + std::string(2000000, '1') + ",2\n"),
             Contains("a field of"));
  CHECK_THAT(tables.complaint(std::string(70000, ',') + "\n"), Contains("columns"));
  CHECK_THAT(tables.complaint(std::string("a,b\n1,\0\n", 8)), Contains("column \"b\""));
}

}  // namespace grapevine
