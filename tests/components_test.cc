// Checks that all source files follow the rules of source_rules.h, and that each rule detects its violation.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/source_rules.h"

namespace karez::tests {
namespace {

TEST(Components, EachComponentSeesOnlyComponentsAboveIt) {
  const auto rows = table();
  EXPECT_GE(rows.size(), 18u) << "components, tools, bench, examples and tests must each have a row";
  for (const auto& fault : faults_of_table(rows)) ADD_FAILURE() << fault;
}

TEST(Components, EveryFileFollowsTheRules) {
  const auto rows = table();
  const auto paths = sources();
  EXPECT_FALSE(paths.empty());
  for (const auto& path : paths)
    for (const auto& fault : faults_of_file(rows, path, read(root / path))) ADD_FAILURE() << fault;
}

TEST(PublicHeaders, PublicHeadersIncludeOnlyPublicHeaders) {
  const Public public_list = public_of(read(root / "CMakeLists.txt"));
  EXPECT_EQ(public_list.components, (std::set<std::string>{"api", "base", "tensor", "sbp", "graph", "plan"}));
  EXPECT_EQ(public_list.files, (std::set<std::string>{"karez/api/profile/profile.h",
                                                      "karez/device/host_array.h",
                                                      "karez/device/namespace.h",
                                                      "karez/data/source.h",
                                                      "karez/data/coroutine.h",
                                                      "karez/data/dataset.h",
                                                      "karez/data/formats.h",
                                                      "karez/data/formats/byte_stream.h",
                                                      "karez/data/image_folder.h",
                                                      "karez/data/image_functions.h",
                                                      "karez/data/images.h",
                                                      "karez/data/wav.h",
                                                      "karez/data/creation_line.h",
                                                      "karez/data/labelled_images.h",
                                                      "karez/data/stages/element.h",
                                                      "karez/data/stages/stage_scope.h",
                                                      "karez/data/stages/stream_state.h",
                                                      "karez/data/namespace.h",
                                                      "karez/kernels/kernel.h",
                                                      "karez/kernels/namespace.h"}));
  std::vector<std::string> headers;
  for (const auto& path : sources())
    if (fs::path(path).extension() == ".h" && public_list.contains(path)) headers.push_back(path);
  EXPECT_GE(headers.size(), 40u);
  for (const auto& file : public_list.files) EXPECT_EQ(std::count(headers.begin(), headers.end(), file), 1) << file;
  for (const auto& fault :
       faults_of_public(public_list, headers, [](const std::string& path) { return read(root / path); }))
    ADD_FAILURE() << fault;
}

TEST(PublicHeaders, IndirectIncludesOfOtherHeadersAreFound) {
  const Public public_list =
      public_of("# first\nset(public_components base plan)\nset(public_files karez/data/source.h)\n");
  std::map<std::string, std::string> files = {
      {"karez/api/a.h", "#include <vector>\n#include \"karez/plan/b.h\"\n#include \"karez/api/c.h\"\n"},
      {"karez/api/c.h", "#include \"karez/data/source.h\"\n#include \"karez/api/a.h\"\n"},
      {"karez/plan/b.h", "#include \"karez/base/d.h\"\n"},
      {"karez/data/source.h", "#include \"karez/base/d.h\"\n"}};
  auto faults = [&] {
    return faults_of_public(public_list, {"karez/api/a.h"}, [&](const std::string& path) { return files[path]; });
  };
  EXPECT_EQ(faults(), Faults{});
  for (const char* hidden :
       {"karez/runtime/session.h", "karez/data/idx.h", "karez/api/trace/trace.h", "karez/plan/deep/e.h"}) {
    files["karez/base/d.h"] = std::string("#include \"") + hidden + "\"\n";
    const auto found = faults();
    ASSERT_EQ(found.size(), 1u) << hidden;
    EXPECT_EQ(found[0].rfind(std::string("karez/api/a.h includes ") + hidden + " through karez/base/d.h", 0), 0u)
        << found[0];
  }
}

// With the precompiled header, a header that lacks such an include would compile here, but not in a user's program.
TEST(PublicHeaders, PublicHeadersIncludeThePrecompiledHeadersThemselves) {
  const std::string cmake = read(root / "CMakeLists.txt");
  const Public public_list = public_of(cmake);
  const std::set<std::string> precompiled = words_of(cmake, "always_included"),
                              light = words_of(cmake, "light_headers");
  EXPECT_GE(precompiled.size(), 10u);
  int count = 0;
  for (const auto& path : sources()) {
    const std::string component = component_of(path);
    if (fs::path(path).extension() != ".h" || !public_list.contains(path) || light.count(path) > 0 ||
        path.find("/test_") != path.npos || path.ends_with("/namespace.h"))
      continue;
    if (component != "api" && component != "graph" && component != "plan") continue;
    ++count;
    const auto included = standard_headers_of(path, [](const std::string& header) { return read(root / header); });
    for (const std::string& header : precompiled)
      EXPECT_EQ(included.count(header), 1u)
          << path << " does not include <" << header << ">: add it, or list the header in light_headers";
  }
  EXPECT_GE(count, 25);
}

// Returns the knots of each component. A knot is a set of units that include each other in a cycle; a unit is a header
// with its source. `text_of` returns the text of a file.
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
  for (bool has_grown = true; has_grown;) {
    has_grown = false;
    for (auto& [unit, next] : reached) {
      const auto old_size = next.size();
      for (const std::string& unit_name : std::vector<std::string>(next.begin(), next.end()))
        if (const auto match = reached.find(unit_name); match != reached.end())
          next.insert(match->second.begin(), match->second.end());
      has_grown = has_grown || next.size() != old_size;
    }
  }
  std::map<std::string, std::vector<std::string>> knots;  // by the first unit of the knot
  std::set<std::string> units_in_knots;
  for (const auto& [unit, next] : reached) {
    if (units_in_knots.count(unit) || !next.count(unit)) continue;
    std::vector<std::string> knot;
    for (const std::string& target : next)
      if (reached.count(target) && reached[target].count(unit)) knot.push_back(target);
    units_in_knots.insert(knot.begin(), knot.end());
    if (knot.size() > 1) knots[unit] = knot;
  }
  return knots;
}

constexpr std::size_t largest_knot = 3;

TEST(Components, AKnotHasAtMostThreeUnits) {
  std::vector<std::string> paths;
  for (const auto& path : sources())
    if (fs::path(path).extension() != ".py") paths.push_back(path);
  for (const auto& [unit, knot] : knots_of(paths, [](const std::string& path) { return read(root / path); })) {
    std::string names;
    for (const std::string& unit_name : knot) names += " " + unit_name;
    EXPECT_LE(knot.size(), largest_knot) << "these units include each other in a cycle:" << names;
  }
}

// Returns the number of units (a header with its source and its test) in each folder.
std::map<std::string, std::size_t> unit_counts(const std::vector<std::string>& paths) {
  std::map<std::string, std::set<std::string>> units;
  for (const std::string& path : paths) {
    const fs::path file(path);
    std::string name = file.stem().string();
    if (name.size() > 5 && name.compare(name.size() - 5, 5, "_test") == 0) name.resize(name.size() - 5);
    units[file.parent_path().string()].insert(name);
  }
  std::map<std::string, std::size_t> counts;
  for (const auto& [folder, names] : units) counts[folder] = names.size();
  return counts;
}

TEST(Components, AFolderHasAtMostFortyUnits) {
  std::vector<std::string> paths;
  for (const auto& path : sources())
    if (path.rfind("karez/", 0) == 0) paths.push_back(path);
  const std::set<std::string> tables = {"karez/ops", "karez/kernels/cpu"};  // each file is a row of a table
  for (const auto& [folder, count] : unit_counts(paths))
    if (!tables.count(folder)) { EXPECT_LE(count, 40u) << folder << ": divide the folder by topic"; }
  EXPECT_EQ(unit_counts({"karez/a/b.h", "karez/a/b.cc", "karez/a/b_test.cc", "karez/a/c_test.cc", "karez/d.h"}),
            (std::map<std::string, std::size_t>{{"karez", 1}, {"karez/a", 2}}));
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
    std::set<std::string> used_namespaces;
    for (const auto& line : lines_of(read(root / header)))
      if (const auto match = named.find(line); !match.empty()) used_namespaces.insert(match[1]);
    if (row.name == "api") used_namespaces.insert("report");  // the sources of api write the names of report in full
    EXPECT_EQ(used_namespaces, row.sees) << header;
  }
  EXPECT_TRUE(fs::exists(root / "karez/plan/namespace.h"));
}

TEST(Components, LongerTablesStillExistAndExceedTheLimit) {
  for (const auto& [path, reason] : longer_tables)
    EXPECT_GT(lines_of(read(root / path)).size(), size_t{max_lines}) << path << ": " << reason;
}

TEST(Components, LibrariesInARowAreNotComponents) {
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

// Each entry violates exactly one rule.
TEST(Components, EveryRuleDetectsItsViolation) {
  const std::vector<Row> rows = {{"base", {}},          {"plan", {"base"}},
                                 {"kernels", {"base"}}, {"api", {"base", "plan"}},
                                 {"examples", {"api"}}, {"tests", {"any"}}};
  const std::string head = "// A file of Karez.\n";
  const std::pair<std::string, std::string> violations[] = {
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
  for (const auto& [path, text] : violations) {
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
}  // namespace karez::tests
