// Tests of command-line options and of the progress line.
#include "karez/api/options.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "karez/api/progress.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/error.h"

namespace karez {
namespace {

Options make_options() {
  return Options({{"epochs", "3", "how often"}, {"lr", "0.5", "rate"}, {"model", "cnn", "which"}});
}

bool read(Options& options, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  return options.read(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Options, DefaultsApplyUnlessTheUserSetsAValue) {
  Options o = make_options();
  EXPECT_TRUE(read(o, {"--lr", "0.25", "--model=mlp"}));
  EXPECT_EQ(o.integer("epochs"), 3);
  EXPECT_EQ(o.real("lr"), 0.25);
  EXPECT_EQ(o.one_of("model", {"cnn", "mlp"}), "mlp");
}

TEST(Options, HelpListsEveryOption) {
  Options o = make_options();
  EXPECT_FALSE(read(o, {"--help"}));
  EXPECT_THAT(o.help(), ::testing::HasSubstr("  --lr 0.5"));
}

TEST(Options, ErrorsNameTheOption) {
  Options o = make_options();
  EXPECT_EQ(error_of([&] {
              read(o, {"--epoch", "3"});
            }),
            "unknown option --epoch; there are 3: --epochs, --lr, --model");
  EXPECT_EQ(error_of([&] { read(o, {"--lr"}); }), "option --lr has no value");
  EXPECT_EQ(error_of([&] { read(o, {"cnn"}); }), "'cnn' is not an option; options begin with --");
  read(o, {"--epochs", "3x", "--lr", "", "--model", "gpt"});
  EXPECT_EQ(error_of([&] { o.integer("epochs"); }), "option --epochs: '3x' is not an integer");
  EXPECT_EQ(error_of([&] { o.real("lr"); }), "option --lr: '' is not a number");
  EXPECT_EQ(error_of([&] { o.one_of("model", {"cnn", "mlp"}); }), "option --model: 'gpt' is not one of cnn, mlp");
}

std::string progress_output(bool terminal, std::int64_t steps) {
  std::FILE* file = std::tmpfile();
  Progress progress(steps, 64, file, terminal);
  for (std::int64_t i = 1; i <= steps; ++i) progress.show(i, 1, 0.5);
  progress.finish();
  std::string out(static_cast<std::size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  EXPECT_EQ(std::fread(out.data(), 1, out.size(), file), out.size());
  std::fclose(file);
  return out;
}

TEST(Progress, ALineContainsStepLossRateAndRemainingTime) {
  EXPECT_EQ(progress_line(938, 2814, 2, 0.31414, 12345.4, 42.3),
            "step 938/2814  epoch 2  loss 0.3141  12345 samples/s  ETA 0:42");
  EXPECT_EQ(progress_line(1, 2, 1, 2, 0, 605), "step 1/2  epoch 1  loss 2.0000  0 samples/s  ETA 10:05");
}

TEST(Progress, WithoutATerminalTwentyPlainLinesAreWritten) {
  std::string text = progress_output(false, 100);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 0);
}

TEST(Progress, EachLineIsFlushed) {
  char* text = nullptr;  // only what has been flushed
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  Progress progress(100, 8, file);
  progress.show(5, 1, 0.25);
  EXPECT_EQ(std::string(text, size), "step 5/100  epoch 1  loss 0.2500  0 samples/s  ETA 0:00\n");
  std::fclose(file);
  std::free(text);
}

TEST(Progress, OnATerminalOneLineIsRewrittenAndEnded) {
  std::string text = progress_output(true, 100);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.front(), '\r');
  EXPECT_THAT(text, ::testing::HasSubstr("step 100/100"));
}

}  // namespace
}  // namespace karez
