// Tests of partition specs: meaning and errors.
#include "karez/sbp/partition_spec.h"

#include <gtest/gtest.h>

#include "karez/base/error.h"

namespace karez::sbp {
namespace {

const Mesh mesh = Mesh::parse("data=2,model=2");

template <class Words> std::string read_of(const Words& words, int rank) {
  try {
    return print(layout_from(words, rank, mesh, "a layout for f32[8, 6]"));
  } catch (const Error& error) { return cat(error.kind == ErrorKind::layout ? "layout: " : "", error.what()); }
}

std::string read(const std::vector<std::string>& words) { return read_of(words, 2); }
std::string split(const std::vector<AxisSplit>& splits, int rank = 2) { return read_of(splits, rank); }

TEST(PartitionSpec, EachEntryNamesTheAxesThatSplitItsDimension) {
  EXPECT_EQ(read({"data", "model"}), "(S(0), S(1))");
  EXPECT_EQ(read({"model", "data"}), "(S(1), S(0))");
  EXPECT_EQ(read({"", "data"}), "(S(1), B)");
  EXPECT_EQ(read({"model", ""}), "(B, S(0))");
  EXPECT_EQ(read({"model"}), "(B, S(0))") << "a dimension without an entry is not split";
  EXPECT_EQ(read({}), "(B, B)");
}

TEST(PartitionSpec, SeveralAxesSplitOneDimensionInTheOrderOfTheMesh) {
  EXPECT_EQ(read({"data+model"}), "(S(0), S(0))");
  EXPECT_EQ(read({"", "model+data"}),
            "layout: a layout for f32[8, 6] splits dimension 1 by 'model+data'; splits nest in the order of the axes "
            "of mesh(data=2, model=2): "
            "'data+model'");
}

TEST(PartitionSpec, AnAxisSplitCountsDimensionsFromEitherEnd) {
  EXPECT_EQ(split({{"data", 0}, {"model", 1}}), "(S(0), S(1))");
  EXPECT_EQ(split({{"model", -1}}), "(B, S(1))");
  EXPECT_EQ(split({{"model", -2}, {"data", 1}}), "(S(1), S(0))");
  EXPECT_EQ(split({{"model", -1}, {"data", 0}}, 1), "(S(0), S(0))") << "the last dimension may be the first";
  EXPECT_EQ(split({}), "(B, B)");
  EXPECT_EQ(
      split({{"model", 2}}),
      "layout: a layout for f32[8, 6] splits dimension 2 on the mesh axis 'model'; the rank is 2: use 0 to 1, or -2 to "
      "-1 from the end");
  EXPECT_EQ(
      split({{"model", -3}}),
      "layout: a layout for f32[8, 6] splits dimension -3 on the mesh axis 'model'; the rank is 2: use 0 to 1, or -2 "
      "to -1 from the end");
  EXPECT_EQ(split({{"model", -1}}, 0),
            "layout: a layout for f32[8, 6] splits dimension -1 on the mesh axis 'model'; the rank is 0");
  EXPECT_EQ(split({{"model", 0}, {"model", 1}}),
            "layout: a layout for f32[8, 6] names the mesh axis 'model' twice: it can split one dimension");
}

TEST(PartitionSpec, InvalidSpecsAreErrorsThatShowTheSpec) {
  EXPECT_EQ(read({"data", "model", ""}), "layout: a layout for f32[8, 6] names 3 dimensions; there are 2");
  EXPECT_EQ(read({"data", "data"}),
            "layout: a layout for f32[8, 6] names the mesh axis 'data' twice: it can split one dimension");
  EXPECT_EQ(read({"model+model"}),
            "layout: a layout for f32[8, 6] names the mesh axis 'model' twice: it can split one dimension");
  EXPECT_EQ(read({"modle"}), "mesh: no axis is called 'modle'; mesh(data=2, model=2) has data, model");
  EXPECT_EQ(read({"data+"}), "mesh: no axis is called ''; mesh(data=2, model=2) has data, model");
}

TEST(PartitionSpec, SpecsOfLayoutsRoundTrip) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"data", "model"}, {"model", "data"}, {"data+model", ""}, {"", "data+model"}, {"", "model"}, {"", ""}})
    EXPECT_EQ(partition_spec_of(layout_from(words, 2, mesh, "a layout"), 2, mesh), words);
  EXPECT_EQ(partition_spec_of({P(), S(1)}, 2, mesh), (std::vector<std::string>{"", "model"}));
  EXPECT_EQ(partition_spec_of({B(), P()}, 0, mesh), std::vector<std::string>{});
}

}  // namespace
}  // namespace karez::sbp
