// Checks that pointwise_build.h has a function for every row of the pointwise table.
#include "karez/ops/pointwise_build.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "karez/base/test_golden_file.h"
#include "karez/ops/pointwise.h"

namespace karez::ops {
namespace {

bool is_gradient(const Pointwise& row) { return row.grads.empty() && row.no_grad.empty(); }

TEST(PointwiseBuild, EveryRowHasAFunction) {
  std::string text =
      "// Functions that add a node of a pointwise op, whose operands have equal shapes and dtypes.\n"
      "// Generated from karez/ops/pointwise.cc by `./dev test --update PointwiseBuild`; do not edit.\n"
      "#pragma once\n\n#include \"karez/graph/op.h\"\n#include \"karez/ops/namespace.h\"\n\n"
      "namespace karez::ops::build {\n\n";
  for (const Pointwise& row : pointwise_rows()) {
    if (is_gradient(row)) continue;
    const std::vector<std::string> all_names{"x", "y", "z"}, names(all_names.begin(), all_names.begin() + row.operands);
    const bool is_keyword = row.name == "and" || row.name == "or" || row.name == "not";
    const std::string head = cat("inline ValueId ", row.name, is_keyword ? "_" : "", "(Builder& b, ",
                                 join(names, ", ", [](const std::string& name) { return "ValueId " + name; }), ") {");
    const std::string body = cat("return b.one(\"", row.name, "\", {", join(names, ", "), "});");
    const std::string line = cat(head, " ", body, " }\n");
    text += line.size() <= 121 ? line : cat(head, "\n  ", body, "\n}\n");
  }
  EXPECT_TRUE(golden_file(cat(text, "\n}  // namespace karez::ops::build\n"), "karez/ops/pointwise_build.h"));
}

}  // namespace
}  // namespace karez::ops
