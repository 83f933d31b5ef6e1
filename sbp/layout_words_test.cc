// Words for a layout: what they mean, and what is refused.
#include "sbp/layout_words.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace karez::sbp {
namespace {

const Mesh mesh = Mesh::parse("data=2,model=2");

std::string read(const std::vector<std::string>& words) {
  try {
    return print(layout_from(words, 2, mesh, "a layout for f32[8, 6]"));
  } catch (const Error& error) { return cat(error.kind == ErrorKind::layout ? "layout: " : "", error.what()); }
}

TEST(LayoutWords, EachNamesTheAxesThatSplitItsDimension) {
  EXPECT_EQ(read({"data", "model"}), "(S(0), S(1))");
  EXPECT_EQ(read({"model", "data"}), "(S(1), S(0))");
  EXPECT_EQ(read({"", "data"}), "(S(1), B)");
  EXPECT_EQ(read({"model", ""}), "(B, S(0))");
  EXPECT_EQ(read({"model"}), "(B, S(0))") << "what is not named is not split";
  EXPECT_EQ(read({}), "(B, B)");
}

TEST(LayoutWords, SeveralAxesSplitOneDimensionInWhateverOrderTheyAreNamed) {
  EXPECT_EQ(read({"data+model"}), "(S(0), S(0))");
  EXPECT_EQ(read({"", "model+data"}), "(S(1), S(1))");
}

TEST(LayoutWords, WhatNoMeshCanHoldIsRefusedWithWhatWasRead) {
  EXPECT_EQ(read({"data", "model", ""}), "layout: a layout for f32[8, 6] names 3 dimensions; there are 2");
  EXPECT_EQ(read({"data", "data"}), "layout: a layout for f32[8, 6] names the mesh axis 'data' twice: it can split one dimension");
  EXPECT_EQ(read({"model+model"}), "layout: a layout for f32[8, 6] names the mesh axis 'model' twice: it can split one dimension");
  EXPECT_EQ(read({"modle"}), "mesh: no axis is called 'modle'; mesh(data=2, model=2) has data, model");
  EXPECT_EQ(read({"data+"}), "mesh: no axis is called ''; mesh(data=2, model=2) has data, model");
}

}  // namespace
}  // namespace karez::sbp
