// Tests of the coordinates, groups, text and errors of meshes.
#include "karez/sbp/mesh.h"

#include <gtest/gtest.h>

#include "karez/base/error.h"
#include "karez/base/test_error.h"

namespace karez::sbp {
namespace {

TEST(Mesh, DevicesAreInRowMajorOrderOfTheirCoordinates) {
  Mesh mesh = Mesh::of({{"data", 2}, {"model", 3}});
  EXPECT_EQ(mesh.size(), 6);
  EXPECT_EQ(mesh.coordinates(1), (std::vector<int>{0, 1}));
  EXPECT_EQ(mesh.coordinates(5), (std::vector<int>{1, 2}));
  for (int p = 0; p < 6; ++p) EXPECT_EQ(mesh.position(mesh.coordinates(p)), p);
  EXPECT_EQ(mesh.devices[4], (DeviceName{0, 4}));
}

TEST(Mesh, PositionsOfAGroupDifferOnOneAxisOnly) {
  Mesh mesh = Mesh::of({{"data", 2}, {"model", 3}});
  EXPECT_EQ(mesh.group(0, 4), (std::vector<int>{1, 4}));
  EXPECT_EQ(mesh.group(1, 4), (std::vector<int>{3, 4, 5}));
}

TEST(Mesh, TextIsParsedAndPrinted) {
  Mesh mesh = Mesh::parse("data=2,model=2");
  EXPECT_EQ(mesh, Mesh::of({{"data", 2}, {"model", 2}}));
  EXPECT_EQ(print(mesh), "mesh(data=2, model=2)");
  EXPECT_EQ(mesh.axis("model"), 1);
}

TEST(Mesh, AMeshWithoutAxesHasOneDevice) {
  Mesh mesh = Mesh::parse("");
  EXPECT_EQ(mesh.size(), 1);
  EXPECT_EQ(mesh.rank(), 0);
  EXPECT_TRUE(mesh.coordinates(0).empty());
  EXPECT_EQ(print(mesh), "mesh()");
}

TEST(Mesh, BadMeshesAreRejected) {
  EXPECT_EQ(error_of([] { Mesh::of({{"data", 0}}); }), "mesh: axis data has size 0; it must be at least 1");
  EXPECT_EQ(error_of([] { Mesh::of({{"data", 2}, {"data", 2}}); }), "mesh: axis data appears twice, as axes 0 and 1");
  EXPECT_EQ(error_of([] { Mesh::of({{"", 2}}); }), "mesh: axis 0 of size 2 has no name");
  EXPECT_NE(error_of([] {
              Mesh::of({{"a", 1 << 20}, {"b", 1 << 20}});
            }).find("devices; the maximum is"),
            std::string::npos);
  EXPECT_NE(error_of([] { Mesh::parse("data=2 model=2"); }), "no error");
  EXPECT_NE(error_of([] { Mesh::parse("data"); }), "no error");
  EXPECT_EQ(error_of([] { Mesh::parse("data=-1"); }),
            "mesh: axis data has size -1; it must be 1 to 16777216 (in 'data=-1')");
}

TEST(Mesh, MeshesWithDifferentDevicesOrAxesDiffer) {
  const Mesh mesh({{"data", 2}}, {{0, 0}, {0, 1}});
  EXPECT_EQ(mesh, Mesh::of({{"data", 2}}));
  EXPECT_NE(mesh, Mesh({{"data", 2}}, {{0, 1}, {0, 0}}));
  EXPECT_NE(mesh, Mesh({{"model", 2}}, {{0, 0}, {0, 1}}));
}

TEST(Mesh, UnknownAxesAndPositionsAreErrors) {
  Mesh mesh = Mesh::parse("data=2,model=2");
  EXPECT_EQ(error_of([&] { mesh.axis("batch"); }), "mesh: unknown axis 'batch'; expected one of: data, model");
  EXPECT_EQ(error_of([] { Mesh::parse("").axis("data"); }), "mesh: unknown axis 'data'; mesh() has no axes");
  EXPECT_EQ(error_of([&] { mesh.coordinates(4); }), "mesh: position 4 is outside mesh(data=2, model=2) of 4 devices");
  EXPECT_NE(error_of([&] { mesh.position({0, 2}); }), "no error");
  EXPECT_NE(error_of([&] { mesh.position({0}); }), "no error");
  EXPECT_NE(error_of([&] { mesh.group(2, 0); }), "no error");
}

}  // namespace
}  // namespace karez::sbp
