// Tests of the layouts that partition specs give, and of their errors.
#include "karez/sbp/partition_spec.h"

#include <gtest/gtest.h>

#include "karez/base/error.h"

namespace karez::sbp {
namespace {

const Mesh mesh = Mesh::parse("data=2,model=2");

template <class Spec> std::string layout_text(const Spec& spec, int rank) {
  try {
    return print(layout_from(spec, rank, mesh, "a layout for f32[8, 6]"));
  } catch (const Error& error) { return cat(error.kind == ErrorKind::layout ? "layout: " : "", error.what()); }
}

std::string parse_spec(const std::vector<std::string>& spec) { return layout_text(spec, 2); }
std::string parse_splits(const std::vector<AxisSplit>& splits, int rank = 2) { return layout_text(splits, rank); }

TEST(PartitionSpec, EachEntryNamesTheAxesThatSplitItsDimension) {
  EXPECT_EQ(parse_spec({"data", "model"}), "(S(0), S(1))");
  EXPECT_EQ(parse_spec({"model", "data"}), "(S(1), S(0))");
  EXPECT_EQ(parse_spec({"", "data"}), "(S(1), B)");
  EXPECT_EQ(parse_spec({"model", ""}), "(B, S(0))");
  EXPECT_EQ(parse_spec({"model"}), "(B, S(0))") << "a dimension without an entry is not split";
  EXPECT_EQ(parse_spec({}), "(B, B)");
}

TEST(PartitionSpec, SeveralAxesSplitOneDimensionInTheOrderOfTheMesh) {
  EXPECT_EQ(parse_spec({"data+model"}), "(S(0), S(0))");
  EXPECT_EQ(parse_spec({"", "model+data"}),
            "layout: a layout for f32[8, 6] splits dimension 1 by 'model+data'; splits nest in the order of the axes "
            "of mesh(data=2, model=2): "
            "'data+model'");
}

TEST(PartitionSpec, AnAxisSplitCountsDimensionsFromEitherEnd) {
  EXPECT_EQ(parse_splits({{"data", 0}, {"model", 1}}), "(S(0), S(1))");
  EXPECT_EQ(parse_splits({{"model", -1}}), "(B, S(1))");
  EXPECT_EQ(parse_splits({{"model", -2}, {"data", 1}}), "(S(1), S(0))");
  EXPECT_EQ(parse_splits({{"model", -1}, {"data", 0}}, 1), "(S(0), S(0))") << "the last dimension may be the first";
  EXPECT_EQ(parse_splits({}), "(B, B)");
  EXPECT_EQ(
      parse_splits({{"model", 2}}),
      "layout: a layout for f32[8, 6] splits dimension 2 on the mesh axis 'model'; the rank is 2: use 0 to 1, or -2 to "
      "-1 from the end");
  EXPECT_EQ(
      parse_splits({{"model", -3}}),
      "layout: a layout for f32[8, 6] splits dimension -3 on the mesh axis 'model'; the rank is 2: use 0 to 1, or -2 "
      "to -1 from the end");
  EXPECT_EQ(parse_splits({{"model", -1}}, 0),
            "layout: a layout for f32[8, 6] splits dimension -1 on the mesh axis 'model'; the rank is 0");
  EXPECT_EQ(parse_splits({{"model", 0}, {"model", 1}}),
            "layout: a layout for f32[8, 6] names the mesh axis 'model' twice; an axis can split only one dimension");
}

TEST(PartitionSpec, InvalidSpecsAreErrorsThatShowTheSpec) {
  EXPECT_EQ(parse_spec({"data", "model", ""}), "layout: a layout for f32[8, 6] names 3 dimensions, but the rank is 2");
  EXPECT_EQ(parse_spec({"data", "data"}),
            "layout: a layout for f32[8, 6] names the mesh axis 'data' twice; an axis can split only one dimension");
  EXPECT_EQ(parse_spec({"model+model"}),
            "layout: a layout for f32[8, 6] names the mesh axis 'model' twice; an axis can split only one dimension");
  EXPECT_EQ(parse_spec({"modle"}), "mesh: unknown axis 'modle'; expected one of: data, model");
  EXPECT_EQ(parse_spec({"data+"}), "mesh: unknown axis ''; expected one of: data, model");
}

TEST(PartitionSpec, SpecsOfLayoutsRoundTrip) {
  for (const std::vector<std::string>& spec : std::vector<std::vector<std::string>>{
           {"data", "model"}, {"model", "data"}, {"data+model", ""}, {"", "data+model"}, {"", "model"}, {"", ""}})
    EXPECT_EQ(partition_spec_of(layout_from(spec, 2, mesh, "a layout"), 2, mesh), spec);
  EXPECT_EQ(partition_spec_of({P(), S(1)}, 2, mesh), (std::vector<std::string>{"", "model"}));
  EXPECT_EQ(partition_spec_of({B(), P()}, 0, mesh), std::vector<std::string>{});
}

}  // namespace
}  // namespace karez::sbp
