// Tests of the command line, and of the passes that `karez opt` reads from it.
#include "tools/karez/cli.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "karez/base/error.h"
#include "karez/base/test_golden.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

struct CommandOutput {
  int code = 0;
  std::string out, error;
};
CommandOutput run(const Command& root, std::vector<const char*> words) {
  words.insert(words.begin(), root.name.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CommandOutput output;
  try {
    output.code = run_command_line(root, static_cast<int>(words.size()), words.data());
  } catch (const Error& error) { output.error = error.what(), output.code = exit_code(error.kind); }
  output.out = testing::internal::GetCapturedStdout();
  output.error += testing::internal::GetCapturedStderr();
  return output;
}

struct ParsedOptions {
  std::string file;
  std::int64_t count = 7;
  double delay = 0.5;
  bool flag = false;
  std::vector<std::string> list;
};
Command make_tool(ParsedOptions& options) {
  return {"tool",
          "Does things.\nA footer.",
          {},
          nullptr,
          {{"copy", "Copies.", {}, [] { return 3; }, {}},
           {"work",
            "Works.",
            {{"FILE", "a file", &options.file},
             {"--count", "a number", &options.count},
             {"--delay", "us", &options.delay},
             {"--flag", "yes", &options.flag},
             {"--list", "each", &options.list}},
            [] { return 5; },
            {}}}};
}

TEST(CommandLine, OmittedOptionsKeepTheirValues) {
  ParsedOptions options;
  EXPECT_EQ(run(make_tool(options), {"work", "a"}).code, 5);
  EXPECT_EQ(options.file, "a");
  EXPECT_EQ(options.count, 7);
  EXPECT_EQ(options.delay, 0.5);
  EXPECT_FALSE(options.flag);
  EXPECT_TRUE(options.list.empty());
}

TEST(CommandLine, OptionsAreReadBeforeAndAfterTheFile) {
  ParsedOptions options;
  EXPECT_EQ(run(make_tool(options),
                {"work", "--list", "x=1", "a", "--count", "-3", "--flag", "--delay", "1e-3", "--list", "y"})
                .code,
            5);
  EXPECT_EQ(options.file, "a");
  EXPECT_EQ(options.count, -3);
  EXPECT_EQ(options.delay, 1e-3);
  EXPECT_TRUE(options.flag);
  EXPECT_EQ(options.list, (std::vector<std::string>{"x=1", "y"}));
}

TEST(CommandLine, WordsForAnotherProgramArePassedOnUnchanged) {
  std::int64_t count = 1;
  std::vector<std::string> rest;
  const Command root{"tool",
                     "Does things.",
                     {},
                     nullptr,
                     {{"run", "Runs.", {{"-n,--count", "a number", &count}}, [] { return 4; }, {}, &rest}}};
  auto words = [&](std::vector<const char*> list) {
    rest.clear();
    list.insert(list.begin(), "run");
    EXPECT_EQ(run(root, list).code, 4);
    return rest;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words({"-n", "3", "prog", "-n", "7", "--help", "x"}), (Words{"prog", "-n", "7", "--help", "x"}));
  EXPECT_EQ(count, 3);
  EXPECT_EQ(words({"--", "prog", "--", "-n"}), (Words{"prog", "--", "-n"}));
  EXPECT_EQ(words({"prog", "--", "x", "--"}), (Words{"prog", "--", "x", "--"}));
  EXPECT_EQ(words({}), Words{});
  EXPECT_EQ(words({"--bogus", "x"}), (Words{"--bogus", "x"}))
      << "an unknown option must be passed on, so that the command can reject it";
}

TEST(CommandLine, TheSelectedCommandRuns) {
  ParsedOptions options;
  EXPECT_EQ(run(make_tool(options), {"copy"}).code, 3);
}

TEST(CommandLine, HelpIsNotAnError) {
  ParsedOptions options;
  const CommandOutput output = run(make_tool(options), {"work", "--help"});
  EXPECT_EQ(output.code, 0);
  EXPECT_EQ(output.error, "");
  for (const char* word : {"Works.", "FILE", "--count", "--list"})
    EXPECT_NE(output.out.find(word), std::string::npos) << word;
  EXPECT_NE(run(make_tool(options), {"--help"}).out.find("A footer."), std::string::npos);
}

TEST(CommandLine, InvalidWordsAreReported) {
  ParsedOptions options;
  auto error = [&](std::vector<const char*> words) {
    const CommandOutput output = run(make_tool(options), std::move(words));
    EXPECT_EQ(output.code, 64);
    EXPECT_EQ(output.out, "");
    return output.error;
  };
  EXPECT_EQ(error({}), "tool: a subcommand is required; see tool --help\n");
  EXPECT_EQ(error({"wrok"}), "tool: unknown subcommand 'wrok' of tool; there are 2: work, copy; see tool --help\n");
  EXPECT_EQ(error({"work"}), "tool: FILE is required; see tool work --help\n");
  EXPECT_EQ(error({"work", "a", "--count", "x"}), "tool: --count: invalid number 'x'; see tool work --help\n");
  EXPECT_EQ(error({"work", "a", "--cuont", "1"}),
            "tool: the following arguments were not expected: 1 --cuont; see tool work --help\n");
}

// A file that is removed at the end of its test.
struct TemporaryFile {
  static inline int file_count = 0;
  std::string path = (std::filesystem::temp_directory_path() / cat("karez_cli_", getpid(), "_", file_count++)).string();
  explicit TemporaryFile(const std::string& text) { write_text(path, text); }
  ~TemporaryFile() { std::remove(path.c_str()); }
};

const char* const small_graph = R"(graph main mesh(data=2) {
  %0 = input() {dtype="f32", name="x", shape=[8, 6]} : f32[8@data, 6]
  %3 = relu(%0) : f32[8, 6]
  %4 = relu(%0) : f32[8, 6]
  %5 = add(%3, %4) : f32[8, 6]
  output "y" %5
}
)";

CommandOutput opt(const TemporaryFile& file, const char* passes, const char* remat = "") {
  return run({"karez", "", {}, nullptr, {opt_command()}},
             {"opt", file.path.c_str(), "--passes", passes, "--remat", remat});
}

TEST(Opt, LayoutsAreExplainedOnAnyMesh) {
  const TemporaryFile file(small_graph);
  auto explain = [&](const char* mesh, const char* value) {
    return run({"karez", "", {}, nullptr, {opt_command()}},
               {"opt", file.path.c_str(), "--mesh", mesh, "--explain", value});
  };
  const std::string on_text =
      run({"karez", "", {}, nullptr, {opt_command()}}, {"opt", file.path.c_str(), "--explain", "x"}).out;
  EXPECT_EQ(on_text.substr(0, 35), "'x' on mesh(data=2), predicted for ");
  EXPECT_NE(on_text.find("  f32[8@data, 6]: "), std::string::npos);
  EXPECT_NE(on_text.find(", as requested; optimal"), std::string::npos);
  const std::string explanation = explain("a=2,b=3", "x").out;
  EXPECT_EQ(explanation.substr(0, 21), "'x' on mesh(a=2, b=3)");
  EXPECT_NE(explanation.find("  f32[8@a@b, 6]: "), std::string::npos);
  EXPECT_NE(explanation.find(", chosen; optimal"), std::string::npos)
      << "the layout was fixed on mesh(data=2), but must not be fixed on another mesh";
  EXPECT_EQ(explain("a=2", "z").error.substr(0, 62), "unknown value, module or variable 'z'; there are 2: x, y; or %");
  EXPECT_EQ(explain("a=", "x").code, 64);
}

TEST(Opt, GapsBetweenValueNumbersAreClosed) {
  const TemporaryFile file(small_graph);
  EXPECT_TRUE(golden(opt(file, "canonicalise").out, R"(graph main mesh(data=2) {
  %0 = input() {dtype="f32", name="x", shape=[8, 6]} : f32[8@data, 6]
  %1 = relu(%0) : f32[8, 6]
  %2 = add(%1, %1) : f32[8, 6]
  output "y" %2
}
)"));
  const CommandOutput sharded = opt(file, "shard");
  EXPECT_EQ(sharded.error, "");
  EXPECT_NE(sharded.out.find("%3 = add(%1, %2) : f32[8@data, 6]"), std::string::npos) << sharded.out;
}

TEST(Opt, PassesRunInOrderAndReportMissingDependencies) {
  const TemporaryFile file(small_graph);
  EXPECT_NE(opt(file, "shard, box").out.find("= box("), std::string::npos) << "the output must be Broadcast";
  EXPECT_NE(opt(file, "all").out.find("plan \"main\""), std::string::npos);
  EXPECT_EQ(opt(file, "shard,box,order,segment,slots,localise,emit,memory").error, "");
  EXPECT_EQ(opt(file, "box,shard").error,
            "--passes 'box,shard': box needs data that shard keeps outside of the graph; add shard");
  EXPECT_EQ(opt(file, "shard,box,order,segment,localise").error,
            "--passes 'shard,box,order,segment,localise': localise needs data that slots keeps outside of the graph; "
            "add slots");
  EXPECT_EQ(opt(file, "layout").code, 64);
  EXPECT_EQ(opt(file, "shard,shard").error.substr(0, 59),
            "--passes 'shard,shard': shard comes before shard in the pip");
}

TEST(Opt, ABoxedProgramCannotBeShardedAgain) {
  const TemporaryFile boxed(opt(TemporaryFile(small_graph), "shard,box").out);
  EXPECT_EQ(opt(boxed, "canonicalise").error, "");
  EXPECT_NE(opt(boxed, "shard").error.find("is a change of layout that box has inserted; shard must run before box"),
            std::string::npos);
}

TEST(Opt, ValuesOfNamedModulesAreRecomputedForGradients) {
  const TemporaryFile file(R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = exp(%0) : f32[2, 4] in "net.one"
  %2 = tanh(%1) : f32[2, 4] in "net.one"
  %3 = exp(%2) : f32[2, 4] in "net.two"
  %4 = tanh(%3) : f32[2, 4] in "net.two"
  %5 = relu(%3) : f32[2, 4] in "net.two.grad"
  %6 = mul(%5, %1) : f32[2, 4] in "net.one.grad"
  output "y" %4
  output "g" %6
}
)");
  auto exps = [&](const char* remat) {
    const CommandOutput output = opt(file, "canonicalise,recompute", remat);
    EXPECT_EQ(output.error, "");
    int count = 0;
    for (std::size_t at = output.out.find("= exp("); at != std::string::npos; at = output.out.find("= exp(", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(exps(""), 2);
  EXPECT_EQ(exps("net.one"), 3);
  EXPECT_EQ(exps(" net.one  net.two "), 4);
  EXPECT_EQ(opt(file, "all", "net.one net.tow").error,
            "remat: 'net.tow' matches no module of this function; there are 3: net.two, net.one, net");
  EXPECT_EQ(opt(file, "canonicalise", "net.one").error,
            "--remat 'net.one' needs the recompute pass, which is not in --passes 'canonicalise'");
}

}  // namespace
}  // namespace karez::tools
