// Defines the rules for source files: the includes of each component, the length of a file, the files that may use a
// third-party library, and the headers that users may include.
#pragma once

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

namespace karez::tests {

namespace fs = std::filesystem;
using Faults = std::vector<std::string>;

// The data tables that may be longer than `max_lines`: path and reason.
inline const std::map<std::string, std::string> longer_tables = {};
inline constexpr int max_lines = 400, max_folders = 3;

// The row of a folder with the components that it may include; `any` stands for all.
struct Row {
  std::string name;
  std::set<std::string> sees;
};

inline std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A POSIX extended regular expression, because the header <regex> takes a second to compile.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    if (::regcomp(&compiled_, text.c_str(), REG_EXTENDED) != 0) throw std::invalid_argument(text);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() { ::regfree(&compiled_); }
  // Returns the texts of the first match and of its groups, "" for a group that did not match; empty without a match.
  std::vector<std::string> find(const std::string& text) const {
    std::array<regmatch_t, 8> match_texts{};
    std::vector<std::string> out;
    if (::regexec(&compiled_, text.c_str(), match_texts.size(), match_texts.data(), 0) != 0) return out;
    for (const regmatch_t& one : match_texts)
      out.push_back(one.rm_so < 0 ? ""
                                  : text.substr(static_cast<std::size_t>(one.rm_so),
                                                static_cast<std::size_t>(one.rm_eo - one.rm_so)));
    return out;
  }

 private:
  regex_t compiled_;
};

// Parses the rows of CMakeLists.txt: component(tensor SEES base LINKS z) -> {tensor, {base}}. The comment
// "# tests/ SEES any" is a row too, because tests/ has no such call.
inline std::vector<Row> rows_of(const std::string& cmake) {
  static const Pattern row(R"(^((component|programs)\(([a-z_]+)|# ([a-z_]+)/ SEES )([^):]*)[):])");
  std::vector<Row> rows;
  for (const auto& line : lines_of(cmake)) {
    const auto match_texts = row.find(line);
    if (match_texts.empty()) continue;
    bool reads_components = match_texts[3].empty();
    Row r{reads_components ? match_texts[4] : match_texts[3], {}};
    std::istringstream words(match_texts[5]);
    for (std::string word; words >> word;) {
      if (word == "SEES" || word == "LINKS" || word == "PREFIX") reads_components = word == "SEES";
      else if (reads_components) r.sees.insert(word);
    }
    rows.push_back(r);
  }
  return rows;
}

// A row may name only components above it, so that the table has no cycle.
inline Faults faults_of_table(const std::vector<Row>& rows) {
  Faults faults;
  std::set<std::string> earlier{"any"};
  for (const auto& row : rows) {
    for (const auto& dependency : row.sees)
      if (!earlier.count(dependency))
        faults.push_back(row.name + " sees " + dependency + ", which is not a component above it");
    if (!earlier.insert(row.name).second) faults.push_back(row.name + " has two rows");
  }
  return faults;
}

// True if the path contains one of the words; "kernels/cpu/onednn_matmul.cc" has kernels, cpu, onednn, matmul and cc.
inline bool is_named_after(const std::string& path, const std::string& names) {
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

// Returns the component of a path relative to the root: plan for "karez/plan/ports.h", tests for "tests/x_test.cc", api
// for "karez/karez.h"; "" for a file outside of all components.
inline std::string component_of(const std::string& path) {
  if (path == "karez/karez.h") return "api";
  const std::string inside = path.rfind("karez/", 0) == 0 ? path.substr(6) : path;
  return inside.find('/') == inside.npos ? "" : inside.substr(0, inside.find('/'));
}

struct ThirdParty {
  // header: prefix of the include; where: words, one of which must be in the path of a file with this include
  std::string header, where;
};
inline const ThirdParty third_parties[] = {
    {"oneapi/dnnl", "onednn"},
    {"dnnl", "onednn"},
    {"zlib.h", "gzip"},
    {"jpeglib.h", "jpeg"},
    {"jerror.h", "jpeg"},
    {"png.h", "png"},
    {"webp/", "webp"},
    {"sndfile", "wav"},
    {"archive", "archive"},
    {"isa-l", "isal"},
    {"simdjson", "simdjson"},
    {"zstd", "zstd"},
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
inline const std::set<std::string> banned_headers = {"ranges", "format", "expected"};

inline Faults faults_of_include(const std::vector<Row>& rows, const Row& row, const std::string& path,
                                const std::string& include, bool quoted) {
  Faults faults;
  if (quoted) {
    const auto component = component_of(include);
    const bool is_component = std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r.name == component; });
    if (!is_component) faults.push_back(path + ": \"" + include + "\" does not start with a component");
    else if (component != row.name && !row.sees.count(component) && !row.sees.count("any"))
      faults.push_back(path + ": " + row.name + " may not include " + component);
    else if (component != row.name && component == "api" && std::count(include.begin(), include.end(), '/') > 2 &&
             !row.sees.count("any"))
      faults.push_back(path + ": \"" + include + "\" is not public");
    return faults;
  }
  if (banned_headers.count(include)) faults.push_back(path + ": <" + include + "> is not used in Karez");
  for (const auto& [header, where] : third_parties)
    if (include.rfind(header, 0) == 0 && !is_named_after(path, where))
      faults.push_back(path + ": <" + include + "> needs one of these words in the path: " + where);
  return faults;
}

// Returns the includes of a file, each with true for quotes and false for brackets.
inline std::vector<std::pair<std::string, bool>> includes_of(const std::string& text) {
  static const Pattern include(R"re(^[[:space:]]*#[[:space:]]*include[[:space:]]*(["<])([^">]+)[">])re");
  std::vector<std::pair<std::string, bool>> includes;
  for (const auto& line : lines_of(text))
    if (const auto match_texts = include.find(line); !match_texts.empty())
      includes.emplace_back(match_texts[2], match_texts[1] == "\"");
  return includes;
}

// Returns the faults of one source file; the path is relative to the root.
inline Faults faults_of_file(const std::vector<Row>& rows, const std::string& path, const std::string& text) {
  Faults faults;
  const auto lines = lines_of(text);
  if (static_cast<int>(lines.size()) > max_lines && !longer_tables.count(path))
    faults.push_back(path + ": a file must have at most " + std::to_string(max_lines) + " lines, got " +
                     std::to_string(lines.size()));
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

// The headers that users may include: all headers of some components, and single files of others.
struct Public {
  std::set<std::string> components, files;
  bool contains(const std::string& header) const {
    if (header == "karez/api/namespace.h") return false;  // only for api's sources
    return header == "karez/karez.h" || files.count(header) ||
           (components.count(component_of(header)) && std::count(header.begin(), header.end(), '/') == 2);
  }
};

// Returns the words of a line set(name ...) in CMakeLists.txt.
inline std::set<std::string> words_of(const std::string& cmake, const std::string& name) {
  std::set<std::string> out;
  const auto match_texts = Pattern("\nset\\(" + name + " ([^)]*)\\)").find(cmake);
  if (match_texts.empty()) return out;
  std::istringstream in(match_texts[1]);
  for (std::string word; in >> word;) out.insert(word);
  return out;
}

inline Public public_of(const std::string& cmake) {
  Public out{words_of(cmake, "public_components"), words_of(cmake, "public_files")};
  out.components.insert("api");
  return out;
}

// Returns the standard headers that a header includes directly or indirectly. `read_header` returns a header's text.
inline std::set<std::string> standard_headers_of(const std::string& header,
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
inline Faults faults_of_public(const Public& seen, const std::vector<std::string>& headers,
                               const std::function<std::string(const std::string&)>& read_header) {
  Faults faults;
  for (const auto& header : headers) {
    std::map<std::string, std::string> included_by;  // header -> the header that includes it
    std::vector<std::string> open{header};
    while (!open.empty()) {
      const std::string path = open.back();
      open.pop_back();
      for (const auto& [include, quoted] : includes_of(read_header(path))) {
        if (!quoted || !included_by.emplace(include, path).second) continue;
        if (seen.contains(include)) open.push_back(include);
        else faults.push_back(header + " includes " + include + (path == header ? "" : " through " + path));
      }
    }
  }
  return faults;
}

inline const fs::path root = karez::base::source_folder();

inline std::vector<Row> table() { return rows_of(read(root / "CMakeLists.txt")); }

// Returns the paths of all source files, relative to the root.
inline std::vector<std::string> sources() {
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

}  // namespace karez::tests
