// Tests of the control edges that put writes after nodes that may fail.
#include "karez/passes/scheduling/write_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::table;

// Returns the numbers of the nodes that have control edges to the writer of the variable.
std::vector<int> gating_nodes(const char* text, const char* variable, bool check_nan = false) {
  Graph graph = parse_graph(text, table());
  gate_writes(graph, check_nan);
  for (const Variable& v : graph.variables) {
    if (v.name != variable) continue;
    std::vector<int> out;
    for (NodeId predecessor : graph.node(graph.value(v.updated).producer).after) out.push_back(predecessor.index);
    return out;
  }
  return {-1};
}

constexpr const char* step = R"(graph main mesh(data=1) {
  variable "w" : f32[4] read %2 updated %7
  variable "steps" : f32[] read %3 updated %8
  %0 = input() {dtype="f32", name="x", shape=[6, 4]} : f32[6, 4]
  %1 = input() {dtype="i64", name="i", shape=[3]} : i64[3]
  %2 = variable() {dtype="f32", name="w", shape=[4]} : f32[4]
  %3 = variable() {dtype="f32", name="steps", shape=[]} : f32[]
  %4 = gather(%0, %1) : f32[3, 4]
  %5 = reduce_sum(%4) {axes=[0]} : f32[4]
  %6 = exp(%0) : f32[6, 4]
  %7 = add(%2, %5) : f32[4]
  %8 = add(%3, %3) : f32[]
  output "y" %6
}
)";

TEST(WriteGate, WritesComeAfterNodesThatMayFail) {
  EXPECT_THAT(gating_nodes(step, "w"), IsEmpty()) << "the write already depends on all of these nodes";
  EXPECT_THAT(gating_nodes(step, "steps"), ElementsAre(4)) << "the gather, which depends on both inputs";
  EXPECT_THAT(gating_nodes(step, "w", true), ElementsAre(6)) << "any call may produce a NaN";
}

TEST(WriteGate, NodesThatReadTheResultOfAWriteMayFailAfterTheWrite) {
  EXPECT_THAT(gating_nodes(R"(graph main mesh(data=1) {
  variable "w" : f32[4] read %1 updated %2
  %0 = input() {dtype="i64", name="i", shape=[3]} : i64[3]
  %1 = variable() {dtype="f32", name="w", shape=[4]} : f32[4]
  %2 = add(%1, %1) : f32[4]
  %3 = gather(%2, %0) : f32[3]
  output "y" %3
}
)",
                           "w"),
              ElementsAre(0));
}

TEST(WriteGate, AWriteWhoseResultMicroBatchesReadComesBeforeTheirActs) {
  const auto edge_count = [](const char* result) {
    Graph graph = parse_graph(cat(R"(graph main mesh(data=1) {
  variable "steps" : f32[] read %1 updated %2
  %0 = input() {dtype="f32", name="x", shape=[]} : f32[]
  %1 = variable() {dtype="f32", name="steps", shape=[]} : f32[]
  %2 = add(%1, %1) : f32[]
  %3 = add()",
                                  result, R"(, %0) : f32[]
  output "y" %3
}
)"),
                              table());
    for (int acts : {0, 3}) graph.node(NodeId(acts)).acts = 2;
    gate_writes(graph, false);
    return graph.node(NodeId(2)).after.size();
  };
  EXPECT_EQ(edge_count("%2"), 0u) << "with an edge, the two nodes would wait for each other";
  EXPECT_EQ(edge_count("%1"), 1u);
}

TEST(WriteGate, WritesWaitForOtherDevicesThroughTheFirstCollective) {
  EXPECT_THAT(gating_nodes(R"text(graph main mesh(data=2) {
  variable "steps" : f32[] read %1 updated %5
  %0 = input() {dtype="f32", name="x", shape=[6]} : f32[6@data]
  %1 = variable() {dtype="f32", name="steps", shape=[]} : f32[]
  %2 = reduce_sum(%0) {axes=[0]} : f32[; sum@data]
  %3 = box(%2) {axis=0, from="P(sum)", move="all_reduce", to="B"} : f32[]
  %4 = exp(%3) : f32[]
  %5 = add(%1, %1) : f32[]
  output "y" %4
}
)text",
                           "steps"),
              ElementsAre(0, 3));
}

}  // namespace
}  // namespace karez::passes
