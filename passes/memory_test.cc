// memory: no two values that live at once share a byte, on compiled random programs.
#include "passes/memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "passes/pipeline.h"
#include "passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

// Some kernels want workspace.
class Hungry : public testing::AnyCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    auto choice = AnyCatalog::find(call);
    if (choice && call.op == "matmul") choice->workspace = 100 + call.out[0].bytes() / 3;
    return choice;
  }
};

Graph random_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph graph;
  const char* meshes[] = {"", "data=2", "data=3", "data=2,model=2"};
  graph.meshes = {Mesh::parse(meshes[random() % 4])};
  Builder b(graph, table());
  std::vector<ValueId> pool = {build::input(b, "x", {DType::f32, {7, 5}}), build::input(b, "y", {DType::f32, {7, 5}})};
  pool.push_back(testing::parameter(b, "w", {DType::f32, {7, 5}}));
  auto any = [&] { return pool[static_cast<std::size_t>(random() % pool.size())]; };
  for (int step = 0; step < 20; ++step) {
    ValueId x = any(), y = any();
    switch (random() % 8) {
      case 0: pool.push_back(build::matmul(b, build::matmul(b, x, y, {.transpose_b = true}), any())); break;
      case 1: pool.push_back(build::broadcast(b, build::reduce_sum(b, x, {0}), {7, 5}, {1})); break;
      case 2: pool.push_back(build::reshape(b, build::transpose(b, x, {1, 0}), {7, 5})); break;
      case 3: pool.push_back(build::pad(b, build::slice(b, x, {1, 0}, {4, 5}), {1, 0}, {2, 0})); break;
      case 4: pool.push_back(build::tanh(b, x)); break;
      default: pool.push_back(random() % 2 ? build::add(b, x, y) : build::mul(b, x, y)); break;
    }
  }
  graph.variables[0].updated = any();
  graph.outputs = {{"a", any()}, {"b", pool.back()}};
  return graph;
}

struct Use {
  std::int64_t begin, end;  // bytes
  std::size_t first, last;  // calls
  std::string who;
};

TEST(Memory, ValuesThatLiveAtOnceDoNotOverlap) {
  const char* given = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 31;
  RecordProperty("seed", std::to_string(seed));
  Hungry catalog;
  double peaks = 0, bounds = 0;
  std::size_t reused = 0;
  for (std::uint64_t round = 0; round < 30; ++round) {
    Compilation c = testing::compilation(random_program(seed + round));
    c.catalog = &catalog;
    compile(c);
    auto crosses = crosses_actors(c.local, c.cut);
    for (std::size_t s = 0; s < c.local.segments.size(); ++s) {
      const LocalSegment& segment = c.local.segments[s];
      std::map<LocalId, Use> uses;
      std::vector<Use> all;
      for (std::size_t i = 0; i < segment.calls.size(); ++i) {
        auto touch = [&](LocalId v, bool reads) {
          LocalId root = c.local.values[v].root;
          std::int64_t offset = c.scratch.offset[root];
          const LocalValue& owner = c.local.values[root];
          bool elsewhere = owner.variable >= 0 || owner.constant || crosses[root];
          ASSERT_EQ(offset < 0, elsewhere) << "KAREZ_SEED=" << seed + round;
          if (elsewhere) return;
          auto [at, fresh] = uses.try_emplace(root, Use{offset, offset + owner.view.bytes(), i, i, cat("value ", root)});
          ASSERT_FALSE(fresh && reads) << "scratch is read before it is written";
          at->second.last = i;
        };
        for (LocalId in : segment.calls[i].in) touch(in, true);
        for (LocalId out : segment.calls[i].out) touch(out, false);
        std::int64_t workspace = segment.calls[i].workspace, at = c.scratch.workspace[s][i];
        ASSERT_EQ(at >= 0, workspace > 0);
        if (workspace > 0) all.push_back({at, at + workspace, i, i, cat("workspace ", i)});
      }
      for (const auto& [root, use] : uses) all.push_back(use);
      std::int64_t peak = 0, bound = 0, sum = 0;
      for (const Use& use : all) {
        EXPECT_EQ(use.begin % 64, 0);
        peak = std::max(peak, use.end);
        sum += use.end - use.begin;
        for (const Use& other : all) {
          if (&use == &other) continue;
          bool together = use.first <= other.last && other.first <= use.last, overlap = use.begin < other.end && other.begin < use.end;
          ASSERT_FALSE(together && overlap) << use.who << " and " << other.who << " KAREZ_SEED=" << seed + round;
        }
      }
      for (std::size_t i = 0; i < segment.calls.size(); ++i) {
        std::int64_t live = 0;
        for (const Use& use : all)
          if (use.first <= i && i <= use.last) live += round_up(use.end - use.begin, 64);
        bound = std::max(bound, live);
      }
      ASSERT_LE(peak, c.scratch.bytes[static_cast<std::size_t>(std::max(segment.device, 0))]);
      peaks += static_cast<double>(round_up(peak, 64)), bounds += static_cast<double>(bound);
      reused += peak < sum;
    }
  }
  std::printf("peak over live-byte bound: %.4f\n", peaks / bounds);
  EXPECT_LT(peaks / bounds, 1.02);
  EXPECT_GT(reused, 30u);
}

TEST(Memory, WhatAnotherActorOrTheHostTakesLiesInNoScratch) {
  Graph graph;
  graph.meshes = {Mesh::parse("data=2")};
  Builder b(graph, table());
  ValueId x = build::input(b, "x", {DType::f32, {4}});
  graph.value(x).layout = Layout{S(0)};
  ValueId kept = build::exp(b, x), inner = build::neg(b, kept), shown = build::tanh(b, inner);
  for (ValueId v : {kept, inner, shown}) graph.value(v).layout = Layout{S(0)};
  graph.outputs = {{"kept", kept}, {"shown", shown}};
  Compilation c = testing::compilation(std::move(graph));
  compile(c);
  auto crosses = crosses_actors(c.local, c.cut);
  std::string text;
  for (LocalId v : c.local.values.ids())
    if (c.local.values[v].root == v && c.local.values[v].device <= 0)
      text += cat(c.graph.node(c.graph.value(c.local.values[v].value).producer).op->name, crosses[v] ? " crosses\n" : " stays\n");
  EXPECT_EQ(text, "input crosses\nexp crosses\nbox crosses\nneg stays\ntanh crosses\nbox crosses\n");
}

}  // namespace
}  // namespace karez::passes
