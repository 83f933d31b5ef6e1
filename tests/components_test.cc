// Checks the rules for source files: the includes of each component, the length of a file, the files that may use a
// third-party library.
#include <gtest/gtest.h>
#include <regex.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "karez/base/test_source.h"

namespace {
namespace fs = std::filesystem;
using Faults = std::vector<std::string>;

// Tables of data that may exceed the limit of lines: path and reason.
const std::map<std::string, std::string> longer_tables = {};
constexpr int max_lines = 600, max_folders = 3;

// A folder's row: the components that it may include; `any` stands for all.
struct Row {
  std::string name;
  std::set<std::string> sees;
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// An extended regular expression of POSIX; the header <regex> takes a second to compile.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    if (::regcomp(&compiled_, text.c_str(), REG_EXTENDED) != 0) throw std::invalid_argument(text);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() { ::regfree(&compiled_); }
  // The texts of the first match and of its groups, "" for a group that did not match; empty without a match.
  std::vector<std::string> find(const std::string& text) const {
    std::array<regmatch_t, 8> found{};
    std::vector<std::string> out;
    if (::regexec(&compiled_, text.c_str(), found.size(), found.data(), 0) != 0) return out;
    for (const regmatch_t& one : found)
      out.push_back(one.rm_so < 0 ? ""
                                  : text.substr(static_cast<std::size_t>(one.rm_so),
                                                static_cast<std::size_t>(one.rm_eo - one.rm_so)));
    return out;
  }

 private:
  regex_t compiled_;
};

// component(tensor SEES base LINKS z) -> {tensor, {base}}; the comment "# tests/ SEES any" is a row too, because tests/
// has no such call.
std::vector<Row> rows_of(const std::string& cmake) {
  static const Pattern row(R"(^((component|programs)\(([a-z_]+)|# ([a-z_]+)/ SEES )([^):]*)[):])");
  std::vector<Row> rows;
  for (const auto& line : lines_of(cmake)) {
    const auto found = row.find(line);
    if (found.empty()) continue;
    bool seeing = found[3].empty();
    Row r{seeing ? found[4] : found[3], {}};
    std::istringstream words(found[5]);
    for (std::string word; words >> word;) {
      if (word == "SEES" || word == "LINKS" || word == "PREFIX") seeing = word == "SEES";
      else if (seeing) r.sees.insert(word);
    }
    rows.push_back(r);
  }
  return rows;
}

// A row may name only components above it, so that the table has no cycle.
Faults faults_of_table(const std::vector<Row>& rows) {
  Faults faults;
  std::set<std::string> above{"any"};
  for (const auto& row : rows) {
    for (const auto& other : row.sees)
      if (!above.count(other)) faults.push_back(row.name + " sees " + other + ", which is not a component above it");
    if (!above.insert(row.name).second) faults.push_back(row.name + " has two rows");
  }
  return faults;
}

// True if the path has one of the words: those of "kernels/cpu/onednn_matmul.cc" are kernels, cpu, onednn, matmul, cc.
bool is_named_after(const std::string& path, const std::string& names) {
  std::set<std::string> words;
  std::string spaced = path;
  std::replace_if(
      spaced.begin(), spaced.end(), [](unsigned char c) { return !std::isalnum(c); }, ' ');
  std::istringstream parts(spaced);
  for (std::string word; parts >> word;) words.insert(word);
  std::istringstream in(names);
  for (std::string name; in >> name;)
    if (words.count(name)) return true;
  return false;
}

// The component of a path relative to the root: plan for "karez/plan/ports.h", tests for "tests/x_test.cc", api for
// "karez/karez.h"; "" for a file of none.
std::string component_of(const std::string& path) {
  if (path == "karez/karez.h") return "api";
  const std::string inside = path.rfind("karez/", 0) == 0 ? path.substr(6) : path;
  return inside.find('/') == inside.npos ? "" : inside.substr(0, inside.find('/'));
}

struct ThirdParty {
  std::string header, where;  // prefix of the include; words of which the path of the file must have one
};
const ThirdParty third_parties[] = {
    {"oneapi/dnnl", "onednn"},
    {"dnnl", "onednn"},
    {"zlib.h", "gzip"},
    {"omp.h", "kernels"},
    {"hwy/", "kernels highway generate"},
    {"Eigen/", "kernels"},
    {"eigen3/", "none"},
    {"gtest/", "test tests"},
    {"gmock/", "test tests"},
    {"caf/", "caf"},
    {"sodium", "sodium"},
    {"CLI/", "cli"},
    {"nlohmann/", "json"},
};
const std::set<std::string> banned = {"ranges", "format", "expected"};

Faults faults_of_include(const std::vector<Row>& rows, const Row& row, const std::string& path,
                         const std::string& include, bool quoted) {
  Faults faults;
  if (quoted) {
    const auto component = component_of(include);
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.name == component; });
    if (!known) faults.push_back(path + ": \"" + include + "\" does not start with a component");
    else if (component != row.name && !row.sees.count(component) && !row.sees.count("any"))
      faults.push_back(path + ": " + row.name + " may not include " + component);
    else if (component != row.name && component == "api" && std::count(include.begin(), include.end(), '/') > 2 &&
             !row.sees.count("any"))
      faults.push_back(path + ": \"" + include + "\" is not public");
    return faults;
  }
  if (banned.count(include)) faults.push_back(path + ": <" + include + "> is not used in Karez");
  for (const auto& [header, where] : third_parties)
    if (include.rfind(header, 0) == 0 && !is_named_after(path, where))
      faults.push_back(path + ": <" + include + "> needs one of these words in the path: " + where);
  return faults;
}

// The includes of a file, each with true for quotes and false for brackets.
std::vector<std::pair<std::string, bool>> includes_of(const std::string& text) {
  static const Pattern include(R"re(^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<])([^">]+)[">])re");
  std::vector<std::pair<std::string, bool>> includes;
  for (const auto& line : lines_of(text))
    if (const auto found = include.find(line); !found.empty()) includes.emplace_back(found[2], found[1] == "\"");
  return includes;
}

// The faults of one source file; the path is relative to the root.
Faults faults_of_file(const std::vector<Row>& rows, const std::string& path, const std::string& text) {
  Faults faults;
  const auto lines = lines_of(text);
  if (static_cast<int>(lines.size()) > max_lines && !longer_tables.count(path))
    faults.push_back(path + ": " + std::to_string(lines.size()) + " lines, at most " + std::to_string(max_lines));
  const bool inside = path.rfind("karez/", 0) == 0;
  if (std::count(path.begin(), path.end(), '/') - inside > max_folders)
    faults.push_back(path + ": more than " + std::to_string(max_folders) + " folders deep");

  const bool python = fs::path(path).extension() == ".py";
  const size_t first = python && !lines.empty() && lines[0].rfind("#!", 0) == 0 ? 1 : 0;
  static const Pattern sentence("^// *[^[:space:]]+ +[^[:space:]]"),
      python_sentence("^(#|\"\"\") *[^[:space:]]+ +[^[:space:]]");
  if (lines.size() <= first || (python ? python_sentence : sentence).find(lines[first]).empty())
    faults.push_back(path + ": the first line is not a comment that describes the file");
  if (python) return faults;

  const auto component = component_of(path);
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == component; });
  if (row == rows.end()) {
    faults.push_back(path + ": its folder has no row in CMakeLists.txt");
    return faults;
  }
  for (const auto& [include, quoted] : includes_of(text))
    for (const auto& fault : faults_of_include(rows, *row, path, include, quoted)) faults.push_back(fault);
  return faults;
}

// The headers that users may include: those of some components, and some files of others.
struct Public {
  std::set<std::string> components, files;
  bool holds(const std::string& header) const {
    if (header == "karez/api/namespace.h") return false;  // only for api's sources
    return header == "karez/karez.h" || files.count(header) ||
           (components.count(component_of(header)) && std::count(header.begin(), header.end(), '/') == 2);
  }
};

// The words of a line set(name ...) in CMakeLists.txt.
std::set<std::string> words_of(const std::string& cmake, const std::string& name) {
  std::set<std::string> out;
  const auto found = Pattern("\nset\\(" + name + " ([^)]*)\\)").find(cmake);
  if (found.empty()) return out;
  std::istringstream in(found[1]);
  for (std::string word; in >> word;) out.insert(word);
  return out;
}

Public public_of(const std::string& cmake) {
  Public out{words_of(cmake, "public_components"), words_of(cmake, "public_files")};
  out.components.insert("api");
  return out;
}

// The standard headers that a header includes directly or indirectly. `read_header` returns a header's text.
std::set<std::string> standard_headers_of(const std::string& header,
                                          const std::function<std::string(const std::string&)>& read_header) {
  std::set<std::string> standard, seen;
  std::vector<std::string> open{header};
  while (!open.empty()) {
    const std::string text = read_header(open.back());
    open.pop_back();
    for (const auto& [include, quoted] : includes_of(text)) {
      if (!quoted) standard.insert(include);
      else if (seen.insert(include).second) open.push_back(include);
    }
  }
  return standard;
}

// Reports headers that are not public but included by a public one, directly or indirectly. `read_header` returns a
// header's text.
Faults faults_of_public(const Public& seen, const std::vector<std::string>& headers,
                        const std::function<std::string(const std::string&)>& read_header) {
  Faults faults;
  for (const auto& header : headers) {
    std::map<std::string, std::string> by;  // header -> the header that includes it
    std::vector<std::string> open{header};
    while (!open.empty()) {
      const std::string path = open.back();
      open.pop_back();
      for (const auto& [include, quoted] : includes_of(read_header(path))) {
        if (!quoted || !by.emplace(include, path).second) continue;
        if (seen.holds(include)) open.push_back(include);
        else faults.push_back(header + " includes " + include + ", by " + path);
      }
    }
  }
  return faults;
}

const fs::path root = karez::base::source_folder();

std::vector<Row> table() { return rows_of(read(root / "CMakeLists.txt")); }

// The paths of all source files, relative to the root.
std::vector<std::string> sources() {
  static const std::set<std::string> kinds = {".cc", ".h", ".cu", ".cuh", ".py"};
  std::vector<std::string> paths;
  for (fs::recursive_directory_iterator it(root), end; it != end; ++it) {
    const auto name = it->path().filename().string();
    if (it->is_directory() && (name[0] == '.' || (it.depth() == 0 && name.rfind("build", 0) == 0)))
      it.disable_recursion_pending();
    if (it->is_regular_file() && kinds.count(it->path().extension()))
      paths.push_back(it->path().lexically_relative(root));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(Components, EachComponentSeesOnlyComponentsAboveIt) {
  const auto rows = table();
  EXPECT_GE(rows.size(), 18u) << "components, tools, bench, examples and tests each have a row";
  for (const auto& fault : faults_of_table(rows)) ADD_FAILURE() << fault;
}

TEST(Components, EveryFileKeepsTheRules) {
  const auto rows = table();
  const auto paths = sources();
  EXPECT_FALSE(paths.empty());
  for (const auto& path : paths)
    for (const auto& fault : faults_of_file(rows, path, read(root / path))) ADD_FAILURE() << fault;
}

TEST(PublicHeaders, PublicHeadersIncludeOnlyPublicHeaders) {
  const Public seen = public_of(read(root / "CMakeLists.txt"));
  EXPECT_EQ(seen.components, (std::set<std::string>{"api", "base", "tensor", "sbp", "graph", "plan"}));
  EXPECT_EQ(seen.files,
            (std::set<std::string>{"karez/device/host_array.h", "karez/device/namespace.h", "karez/data/source.h",
                                   "karez/data/namespace.h", "karez/kernels/kernel.h", "karez/kernels/namespace.h"}));
  std::vector<std::string> headers;
  for (const auto& path : sources())
    if (fs::path(path).extension() == ".h" && seen.holds(path)) headers.push_back(path);
  EXPECT_GE(headers.size(), 40u);
  for (const auto& file : seen.files) EXPECT_EQ(std::count(headers.begin(), headers.end(), file), 1) << file;
  for (const auto& fault : faults_of_public(seen, headers, [](const std::string& path) { return read(root / path); }))
    ADD_FAILURE() << fault;
}

TEST(PublicHeaders, IndirectIncludesOfOtherHeadersAreFound) {
  const Public seen = public_of("# first\nset(public_components base plan)\nset(public_files karez/data/source.h)\n");
  std::map<std::string, std::string> files = {
      {"karez/api/a.h", "#include <vector>\n#include \"karez/plan/b.h\"\n#include \"karez/api/c.h\"\n"},
      {"karez/api/c.h", "#include \"karez/data/source.h\"\n#include \"karez/api/a.h\"\n"},
      {"karez/plan/b.h", "#include \"karez/base/d.h\"\n"},
      {"karez/data/source.h", "#include \"karez/base/d.h\"\n"}};
  auto faults = [&] {
    return faults_of_public(seen, {"karez/api/a.h"}, [&](const std::string& path) { return files[path]; });
  };
  EXPECT_EQ(faults(), Faults{});
  for (const char* hidden :
       {"karez/runtime/session.h", "karez/data/idx.h", "karez/api/trace/trace.h", "karez/plan/deep/e.h"}) {
    files["karez/base/d.h"] = std::string("#include \"") + hidden + "\"\n";
    const auto found = faults();
    ASSERT_EQ(found.size(), 1u) << hidden;
    EXPECT_EQ(found[0].rfind(std::string("karez/api/a.h includes ") + hidden + ", by karez/base/d.h", 0), 0u)
        << found[0];
  }
}

// A header without such an include would compile because of the precompiled header, but not in a user's program.
TEST(PublicHeaders, PublicHeadersIncludeThePrecompiledHeadersThemselves) {
  const std::string cmake = read(root / "CMakeLists.txt");
  const Public seen = public_of(cmake);
  const std::set<std::string> precompiled = words_of(cmake, "always_included"),
                              light = words_of(cmake, "light_headers");
  EXPECT_GE(precompiled.size(), 10u);
  int count = 0;
  for (const auto& path : sources()) {
    const std::string component = component_of(path);
    if (fs::path(path).extension() != ".h" || !seen.holds(path) || light.count(path) > 0 ||
        path.find("/test_") != path.npos || path.ends_with("/namespace.h"))
      continue;
    if (component != "api" && component != "graph" && component != "plan") continue;
    ++count;
    const auto own = standard_headers_of(path, [](const std::string& header) { return read(root / header); });
    for (const std::string& header : precompiled)
      EXPECT_EQ(own.count(header), 1u) << path << " does not include <" << header
                                       << ">: add it, or list the header in light_headers";
  }
  EXPECT_GE(count, 25);
}

// The knots: units (a header with its source) of one component that include each other in a cycle. `text_of` returns a
// file's text.
std::map<std::string, std::vector<std::string>> knots_of(
    const std::vector<std::string>& paths, const std::function<std::string(const std::string&)>& text_of) {
  std::map<std::string, std::set<std::string>> reached;  // by unit, initially its direct includes
  auto unit_of = [](const std::string& path) { return path.substr(0, path.rfind('.')); };
  for (const auto& path : paths) {
    if (path.rfind("karez/", 0) != 0 || path.find("_test.cc") != path.npos) continue;
    auto& next = reached[unit_of(path)];
    for (const auto& [include, quoted] : includes_of(text_of(path)))
      if (quoted && component_of(include) == component_of(path)) next.insert(unit_of(include));
  }
  for (bool grew = true; grew;) {
    grew = false;
    for (auto& [unit, next] : reached) {
      const auto before = next.size();
      for (const std::string& one : std::vector<std::string>(next.begin(), next.end()))
        if (const auto found = reached.find(one); found != reached.end())
          next.insert(found->second.begin(), found->second.end());
      grew = grew || next.size() != before;
    }
  }
  std::map<std::string, std::vector<std::string>> knots;  // by the first unit of the knot
  std::set<std::string> seen;
  for (const auto& [unit, next] : reached) {
    if (seen.count(unit) || !next.count(unit)) continue;
    std::vector<std::string> knot;
    for (const std::string& other : next)
      if (reached.count(other) && reached[other].count(unit)) knot.push_back(other);
    seen.insert(knot.begin(), knot.end());
    if (knot.size() > 1) knots[unit] = knot;
  }
  return knots;
}

// The size of the largest knot that a component may have; the default is 3. A number may only decrease.
const std::map<std::string, std::size_t> largest_knots = {{"api", 26}};

TEST(Components, KnotsDoNotGrow) {
  std::vector<std::string> units;
  for (const auto& path : sources())
    if (fs::path(path).extension() != ".py") units.push_back(path);
  std::map<std::string, std::size_t> largest;
  for (const auto& [unit, knot] : knots_of(units, [](const std::string& path) { return read(root / path); })) {
    const std::string component = component_of(unit);
    const auto row = largest_knots.find(component);
    const std::size_t limit = row == largest_knots.end() ? 3 : row->second;
    std::string names;
    for (const std::string& one : knot) names += " " + one;
    EXPECT_LE(knot.size(), limit) << "these include each other in a cycle:" << names;
    largest[component] = std::max(largest[component], knot.size());
  }
  for (const auto& [component, limit] : largest_knots)
    EXPECT_EQ(largest[component], limit) << component << ": its largest knot is smaller now: lower the limit";
}

TEST(Components, AKnotIsFoundAcrossHeadersAndSources) {
  std::map<std::string, std::string> files = {
      {"karez/plan/a.h", "#include \"karez/plan/b.h\"\n"},
      {"karez/plan/b.h", "#include \"karez/base/c.h\"\n"},
      {"karez/plan/b.cc", "#include \"karez/plan/b.h\"\n#include \"karez/plan/d.h\"\n"},
      {"karez/plan/d.h", ""},
      {"karez/plan/d.cc", "#include \"karez/plan/d.h\"\n#include \"karez/plan/a.h\"\n"},
      {"karez/plan/e.h", "#include \"karez/plan/a.h\"\n"},
      {"karez/plan/a_test.cc", "#include \"karez/plan/e.h\"\n"},
      {"karez/base/c.h", "#include \"karez/plan/a.h\"\n"}};
  std::vector<std::string> paths;
  for (const auto& [path, text] : files) paths.push_back(path);
  const auto knots = knots_of(paths, [&](const std::string& path) { return files[path]; });
  ASSERT_EQ(knots.size(), 1u);
  EXPECT_EQ(knots.begin()->second, (std::vector<std::string>{"karez/plan/a", "karez/plan/b", "karez/plan/d"}));
}

// The namespace of a component uses the namespaces of exactly the components in its row.
TEST(Components, ANamespaceSeesTheComponentsOfItsRow) {
  static const Pattern named("^using namespace ([a-z]+);");
  for (const Row& row : table()) {
    const std::string header = "karez/" + row.name + "/namespace.h";
    if (!fs::exists(root / header)) continue;
    std::set<std::string> seen;
    for (const auto& line : lines_of(read(root / header)))
      if (const auto found = named.find(line); !found.empty()) seen.insert(found[1]);
    if (row.name == "api") seen.insert("page");  // api's sources write page's names in full
    EXPECT_EQ(seen, row.sees) << header;
  }
  EXPECT_TRUE(fs::exists(root / "karez/plan/namespace.h"));
}

TEST(Components, LongerTablesStillExistAndExceedTheLimit) {
  for (const auto& [path, reason] : longer_tables)
    EXPECT_GT(lines_of(read(root / path)).size(), size_t{max_lines}) << path << ": " << reason;
}

TEST(Components, ARowIsReadWithoutItsLibraries) {
  const auto rows = rows_of(
      "component(base)\ncomponent(data SEES base tensor LINKS ZLIB::ZLIB)\nprograms(bench PREFIX bench_ SEES any)\n# "
      "tests/ "
      "SEES "
      "any: all.\n");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].sees, std::set<std::string>{});
  EXPECT_EQ(rows[1].sees, (std::set<std::string>{"base", "tensor"}));
  EXPECT_EQ(rows[2].sees, std::set<std::string>{"any"});
  EXPECT_EQ(rows[3].name, "tests");
  EXPECT_EQ(rows[3].sees, std::set<std::string>{"any"});
}

TEST(Components, ACycleInTheTableIsFound) {
  EXPECT_EQ(faults_of_table({{"base", {"tensor"}}, {"tensor", {"base"}}}).size(), 1u);
  EXPECT_EQ(faults_of_table({{"base", {}}, {"base", {}}}).size(), 1u);
}

// Each entry breaks exactly one rule.
TEST(Components, EveryRuleCatchesItsBreach) {
  const std::vector<Row> rows = {{"base", {}},          {"plan", {"base"}},
                                 {"kernels", {"base"}}, {"api", {"base", "plan"}},
                                 {"examples", {"api"}}, {"tests", {"any"}}};
  const std::string head = "// A file of Karez.\n";
  const std::pair<std::string, std::string> breaches[] = {
      {"karez/plan/a.cc", head + "#include \"karez/api/tensor.h\"\n"},
      {"examples/a.cc", head + "#include \"karez/base/error.h\"\n"},
      {"examples/a.cc", head + "#include \"karez/api/trace/trace.h\"\n"},
      {"karez/plan/a.cc", head + "#include \"error.h\"\n"},
      {"karez/plan/a.cc", head + "#  include \"karez/nowhere/error.h\"\n"},
      {"karez/attic/a.cc", head},
      {"stray.cc", head},
      {"karez/plan/a.cc", head + std::string(max_lines, '\n')},
      {"karez/plan/a.py", "# A script of Karez.\n" + std::string(max_lines, '\n')},
      {"karez/plan/a.cc", "#include \"karez/base/error.h\"\n"},
      {"karez/plan/a.cc", ""},
      {"karez/plan/a.cc", "//\n"},
      {"tests/a.py", "import numpy\n"},
      {"karez/kernels/a.cc", head + "#include <oneapi/dnnl/dnnl.hpp>\n"},
      {"karez/kernels/a.cc", head + "#include <zlib.h>\n"},
      {"tests/command.cc", head + "#include <CLI/CLI.hpp>\n"},
      {"tests/trace.cc", head + "#include <nlohmann/json.hpp>\n"},
      {"karez/plan/compute.cc", head + "#include <omp.h>\n"},
      {"karez/plan/a.cc", head + "#include <hwy/highway.h>\n"},
      {"karez/plan/a.cc", head + "#include <Eigen/Core>\n"},
      {"karez/plan/a.cc", head + "#include <gtest/gtest.h>\n"},
      {"karez/plan/a.cc", head + "#include <ranges>\n"},
      {"karez/plan/a.cc", head + "#include <format>\n"},
      {"karez/plan/a.cc", head + "#include <expected>\n"},
      {"karez/plan/a/b/c/d.cc", head},
  };
  for (const auto& [path, text] : breaches) {
    const auto faults = faults_of_file(rows, path, text);
    EXPECT_EQ(faults.size(), 1u) << path << "\n" << text.substr(0, 200);
  }
}

TEST(Components, AllowedFilesHaveNoFaults) {
  const std::vector<Row> rows = {
      {"base", {}}, {"plan", {"base"}}, {"kernels", {"base"}}, {"api", {"base"}}, {"tests", {"any"}}};
  const std::string head = "// A file of Karez.\n";
  const std::pair<std::string, std::string> allowed[] = {
      {"karez/plan/a.cc", head + "#include \"karez/base/error.h\"\n#include \"karez/plan/b.h\"\n#include <vector>\n"},
      {"tests/a_test.cc", head + "#include \"karez/plan/b.h\"\n#include <gtest/gtest.h>\n"},
      {"karez/kernels/a.cc", head + "#include \"karez/kernels/cpu/b.h\"\n"},
      {"tests/a_test.cc", head + "#include \"karez/api/trace/trace.h\"\n"},
      {"karez/kernels/cpu/onednn_matmul.cc", head + "#include <oneapi/dnnl/dnnl.hpp>\n"},
      {"karez/kernels/cpu/sum.cc", head + "#include <hwy/highway.h>\n#include <Eigen/Core>\n"},
      {"karez/plan/gzip.cc", head + "#include <zlib.h>\n"},
      {"tests/cli.cc", head + "#include <CLI/CLI.hpp>\n"},
      {"tests/trace_json.cc", head + "#include <nlohmann/json.hpp>\n"},
      {"karez/kernels/cpu/team.cc", head + "#include <omp.h>\n"},
      {"tests/run.py", "#!/usr/bin/env python3\n\"\"\"Runs something.\"\"\"\n"},
  };
  for (const auto& [path, text] : allowed)
    for (const auto& fault : faults_of_file(rows, path, text)) ADD_FAILURE() << fault;
}
}  // namespace
