// Tests of index checks: the arguments of a program that are checked, and the elements that they may have.
#include "karez/api/trace/index_checks.h"

#include <gtest/gtest.h>

#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {

// Returns the checks of a program that replaces the labels for which `comparison` is false by 0.
std::vector<IndexCheck> checks_of(const char* comparison) {
  static const OpTable table = ops::all_ops();
  return index_checks(graph::parse_graph(cat(R"(graph main {
  %0 = input() {dtype="i64", name="arg0", shape=[3]} : i64[3]
  %1 = constant() {dtype="i64", shape=[], value=-100} : i64[]
  %2 = broadcast(%1) {dims=[], shape=[3]} : i64[3]
  %3 = )",
                                             comparison, R"((%0, %2) : bool[3]
  %4 = constant() {dtype="i64", shape=[], value=0} : i64[]
  %5 = broadcast(%4) {dims=[], shape=[3]} : i64[3]
  %6 = select(%3, %0, %5) : i64[3]
  %7 = one_hot(%6) {depth=10, dtype="f32", of="the label"} : f32[3, 10] at "net.cc:3"
  output "y" %7
}
)"),
                                         table));
}

std::string error_of_labels(const IndexCheck& check, const std::vector<std::int64_t>& labels) {
  HostArray array(TensorType{DType::i64, {static_cast<std::int64_t>(labels.size())}});
  std::copy(labels.begin(), labels.end(), array.data<std::int64_t>().begin());
  return error_of([&] { check.validate({array}, true); });
}

TEST(IndexChecks, TheIgnoredLabelIsTheOnlyOneThatMayBeOutOfRange) {
  const std::vector<IndexCheck> checks = checks_of("ne");
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].ignored, -100);
  EXPECT_EQ(error_of_labels(checks[0], {0, -100, 9}), "no error");
  EXPECT_EQ(error_of_labels(checks[0], {0, -100, 10}),
            "one_hot at net.cc:3: the label 10 at [2] is outside 0 to 9 and not -100; nothing was launched");
  EXPECT_EQ(error_of_labels(checks[0], {0, -1, 9}),
            "one_hot at net.cc:3: the label -1 at [1] is outside 0 to 9 and not -100; nothing was launched");
}

TEST(IndexChecks, LabelsThatAnotherComparisonReplacesAreLeftToTheKernels) { EXPECT_TRUE(checks_of("gt").empty()); }

}  // namespace
}  // namespace karez
