// Tests of the place pass: the meshes of values for which the trace chose none, and transfers between meshes.
#include "karez/passes/logical/place.h"

#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {
namespace {

std::string run_place(std::string_view text) {
  Graph graph = place(parse_graph(text, table()), table());
  verify(graph);
  return print(graph);
}

TEST(Place, AnInputIsOnTheMeshOfItsFirstReaderAndIsTransferredOnceToEachOtherMesh) {
  EXPECT_TRUE(golden(run_place(R"(graph main mesh() mesh() [0:1] mesh(a=2) [0:2, 0:3] {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4]
  %1 = copy(%0) : f32[4] on mesh1
  %2 = copy(%0) : f32[4] on mesh2
  %3 = tanh(%0) : f32[4] on mesh2
  output "y" %1
  output "z" %2
  output "t" %3
})"),
                     R"(graph main mesh() [0:1] mesh(a=2) [0:2, 0:3] {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4]
  %1 = copy(%0) : f32[4]
  %2 = transfer(%0) : f32[4] on mesh1
  %3 = copy(%2) : f32[4] on mesh1
  %4 = tanh(%2) : f32[4] on mesh1
  output "y" %1
  output "z" %3
  output "t" %4
}
)"));
}

TEST(Place, AConstantIsCreatedOnEachMeshThatReadsItAndAnUnreadInputStays) {
  EXPECT_TRUE(golden(run_place(R"(graph main mesh() mesh() [0:1] mesh() [0:2] {
  %0 = constant() {dtype="f32", shape=[4], value=2} : f32[4]
  %1 = input() {dtype="f32", name="x", shape=[4]} : f32[4] on mesh1
  %2 = input() {dtype="f32", name="y", shape=[4]} : f32[4] on mesh2
  %3 = mul(%0, %1) : f32[4] on mesh1
  %4 = mul(%0, %2) : f32[4] on mesh2
  %5 = input() {dtype="f32", name="z", shape=[4]} : f32[4]
  output "a" %3
  output "b" %4
  output "c" %5
})"),
                     R"(graph main mesh() [0:1] mesh() [0:2] mesh() {
  %0 = constant() {dtype="f32", shape=[4], value=2} : f32[4]
  %1 = input() {dtype="f32", name="x", shape=[4]} : f32[4]
  %2 = input() {dtype="f32", name="y", shape=[4]} : f32[4] on mesh1
  %3 = mul(%0, %1) : f32[4]
  %4 = constant() {dtype="f32", shape=[4], value=2} : f32[4] on mesh1
  %5 = mul(%4, %2) : f32[4] on mesh1
  %6 = input() {dtype="f32", name="z", shape=[4]} : f32[4] on mesh2
  output "a" %3
  output "b" %5
  output "c" %6
}
)"));
}

// A counter that two placements read is stored and updated on the first placement and transferred to the second.
TEST(Place, AVariableIsUpdatedOnTheMeshThatStoresIt) {
  EXPECT_TRUE(golden(run_place(R"(graph main mesh() mesh() [0:1] mesh() [0:2] {
  variable "n" : f32[4] read %0 updated %4
  %0 = variable() {dtype="f32", name="n", shape=[4]} : f32[4]
  %1 = tanh(%0) : f32[4] on mesh1
  %2 = tanh(%0) : f32[4] on mesh2
  %3 = constant() {dtype="f32", shape=[4], value=1} : f32[4]
  %4 = add(%0, %3) : f32[4]
  output "a" %1
  output "b" %2
})"),
                     R"(graph main mesh() [0:1] mesh() [0:2] {
  variable "n" : f32[4] read %0 updated %5
  %0 = variable() {dtype="f32", name="n", shape=[4]} : f32[4]
  %1 = tanh(%0) : f32[4]
  %2 = transfer(%0) : f32[4] on mesh1
  %3 = tanh(%2) : f32[4] on mesh1
  %4 = constant() {dtype="f32", shape=[4], value=1} : f32[4]
  %5 = add(%0, %4) : f32[4]
  output "a" %1
  output "b" %3
}
)"));
}

TEST(Place, AVariableIsOnTheMeshOfItsUpdate) {
  EXPECT_TRUE(golden(run_place(R"(graph main mesh() mesh() [0:1] mesh() [0:2] {
  variable "n" : f32[4] read %0 updated %2
  %0 = variable() {dtype="f32", name="n", shape=[4]} : f32[4]
  %1 = tanh(%0) : f32[4] on mesh1
  %2 = tanh(%0) : f32[4] on mesh2
  output "a" %1
})"),
                     R"(graph main mesh() [0:2] mesh() [0:1] {
  variable "n" : f32[4] read %0 updated %3
  %0 = variable() {dtype="f32", name="n", shape=[4]} : f32[4]
  %1 = transfer(%0) : f32[4] on mesh1
  %2 = tanh(%1) : f32[4] on mesh1
  %3 = tanh(%0) : f32[4]
  output "a" %2
}
)"));
}

// Equal meshes get one number, and transfers between them are removed.
TEST(Place, EqualMeshesAreMerged) {
  EXPECT_TRUE(golden(run_place(R"(graph main mesh() mesh() [0:1] mesh() {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] on mesh2
  %1 = transfer(%0) : f32[4] on mesh1
  %2 = tanh(%1) : f32[4] on mesh1
  %3 = transfer(%2) : f32[4] on mesh2
  %4 = tanh(%3) : f32[4] on mesh2
  output "a" %4
})"),
                     R"(graph main mesh() mesh() [0:1] {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4]
  %1 = transfer(%0) : f32[4] on mesh1
  %2 = tanh(%1) : f32[4] on mesh1
  %3 = transfer(%2) : f32[4]
  %4 = tanh(%3) : f32[4]
  output "a" %4
}
)"));
  EXPECT_TRUE(golden(run_place(R"(graph main mesh() mesh() [0:1] mesh() [0:1] {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] on mesh1
  %1 = transfer(%0) : f32[4] on mesh2
  %2 = tanh(%1) : f32[4] on mesh2
  output "a" %2
})"),
                     R"(graph main mesh() [0:1] {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4]
  %1 = tanh(%0) : f32[4]
  output "a" %1
}
)"));
}

}  // namespace
}  // namespace karez::passes::testing
