// Tests of the seconds of one-axis transitions and of the choice of all_reduce algorithms.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "karez/sbp/test_steps.h"
#include "karez/sbp/transition.h"

namespace karez::sbp {
namespace {

TEST(TransitionSeconds, SecondsCountMessagesBytesAndLocalCopies) {
  Mesh mesh = Mesh::parse("a=4");
  TensorType type{DType::f32, {6, 5}};  // 120 bytes; parts of 40, 40, 20, 20
  auto price = [&](Sbp from, Sbp to, double alpha, double beta, double memory) {
    CostTable costs;
    costs.link = {alpha, beta};
    costs.memory_bytes = memory;
    for (const TransitionStep& step : steps_from(type, mesh, {from}))
      if (step.to[0] == to) return seconds(type, mesh, step, costs);
    return -1.0;
  };
  constexpr double infinite = std::numeric_limits<double>::infinity();
  auto terms = [&](Sbp from, Sbp to) {
    return std::vector<double>{price(from, to, 1, 0, infinite), price(from, to, 0, 1, infinite),
                               price(from, to, 0, 0, 1)};
  };
  EXPECT_EQ(terms(B(), S(0)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(terms(B(), P()), (std::vector<double>{0, 0, 120}));
  EXPECT_EQ(terms(B(), P(Reduce::max)), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(terms(S(0), P(Reduce::max)), (std::vector<double>{0, 0, 120}));
  EXPECT_EQ(terms(S(0), B()), (std::vector<double>{3, 3 * 40, 40}));
  EXPECT_EQ(terms(P(), S(0)), (std::vector<double>{3, 120 - 20, 4 * 40}));
  EXPECT_EQ(terms(P(), B()), (std::vector<double>{6, 120 + 2 * 32, 4 * 32}));  // 30 elements: ranges of 8, 8, 7, 7
  EXPECT_EQ(terms(S(0), S(1)), (std::vector<double>{3, 40 - 40 * 1 / 5.0, 2 * 2 * 4}));
}

// Each member keeps the intersection of its old and new boxes and sends the rest. The test computes the kept and the
// sent elements of every member.
TEST(TransitionSeconds, AnAllToAllTakesAsLongAsItsBusiestMember) {
  CostTable send_costs, copy_costs;
  send_costs.link = {0, 1}, copy_costs.link = {0, 0};
  send_costs.memory_bytes = std::numeric_limits<double>::infinity(), copy_costs.memory_bytes = 1;
  for (std::int64_t rows = 0; rows < 10; ++rows)
    for (std::int64_t columns = 0; columns < 10; ++columns)
      for (auto text : {"a=2", "a=3", "a=4"}) {
        const Mesh mesh = Mesh::parse(text);
        const TensorType type{DType::b8, {rows, columns}};
        std::int64_t max_sent = 0, max_kept = 0;
        for (int d = 0; d < mesh.size(); ++d) {
          const Box old_box = local_box(type.shape, mesh, {S(0)}, d), new_box = local_box(type.shape, mesh, {S(1)}, d);
          const std::int64_t kept_elements = old_box[0].size() * new_box[1].size();
          max_sent = std::max(max_sent, old_box[0].size() * columns - kept_elements),
          max_kept = std::max(max_kept, kept_elements);
        }
        const TransitionStep step{0, Move::all_to_all, {S(0)}, {S(1)}};
        EXPECT_NEAR(seconds(type, mesh, step, send_costs), static_cast<double>(max_sent), 1e-9)
            << text << " " << rows << " " << columns;
        EXPECT_NEAR(seconds(type, mesh, step, copy_costs), static_cast<double>(max_kept), 1e-9)
            << text << " " << rows << " " << columns;
      }
}

// Two members exchange their whole tensors in one message if a second message costs more than the additional reduction.
// Otherwise up to eight members exchange ranges directly, sixteen use recursive halving and doubling, and nine use a
// ring.
TEST(TransitionSeconds, AnAllReduceUsesTheCheapestAlgorithm) {
  auto choice = [&](const char* name, std::int64_t elements, const CostTable& costs) {
    Mesh mesh = Mesh::parse(name);
    TensorType type{DType::f32, {elements}};
    TransitionStep step{0, Move::all_reduce, {P()}, {B()}};
    return std::pair(all_reduce_of(type, mesh, step, costs), seconds(type, mesh, step, costs));
  };
  CostTable costs;
  costs.link = {10, 1};
  costs.memory_bytes = 2;
  using enum AllReduceAlgorithm;
  using Choice = std::pair<AllReduceAlgorithm, double>;
  EXPECT_EQ(choice("a=2", 4, costs), (Choice{flat, 10 + 16 + 2 * 16 / 2}));
  EXPECT_EQ(choice("a=2", 6, costs), (Choice{direct, 20 + 24 + 24 / 2}));
  EXPECT_EQ(choice("a=2", 5, costs),
            (Choice{flat, 10 + 20 + 2 * 20 / 2}));  // direct: 20 + 20 + 2 * 12 / 2, as the longer range has 3 elements
  EXPECT_EQ(choice("a=4", 4, costs), (Choice{direct, 6 * 10 + 12 + 3 * 4 + 4 * 4 / 2}));
  EXPECT_EQ(choice("a=8", 8, costs).first, direct);
  EXPECT_EQ(choice("a=9", 9, costs), (Choice{ring, 16 * 10 + 32 + 8 * 4 + 36 / 2}));
  EXPECT_EQ(choice("a=12", 12, costs), (Choice{ring, 22 * 10 + 44 + 11 * 4 + 48 / 2}));
  EXPECT_EQ(choice("a=16", 16, costs), (Choice{recursive, 8 * 10 + 60 + 15 * 4 + 64 / 2}));
  TensorType type{DType::f32, {4, 5}};  // two rows per group: 40 bytes
  EXPECT_EQ(all_reduce_of(type, Mesh::parse("a=2,b=2"), {1, Move::all_reduce, {S(0), P()}, {S(0), B()}}, costs),
            direct);
  costs.axis_links = {{"b", {50, 1}}};
  EXPECT_EQ(all_reduce_of(type, Mesh::parse("a=2,b=2"), {1, Move::all_reduce, {S(0), P()}, {S(0), B()}}, costs), flat);
}

TEST(TransitionSeconds, AnAxisIsPricedByItsOwnLink) {
  Mesh mesh = Mesh::parse("a=2,b=2");
  TensorType type{DType::f32, {6}};
  CostTable costs;
  costs.axis_links = {{"b", {1, 0}}};
  for (const TransitionStep& step : steps_from(type, mesh, {P(), P()}))
    EXPECT_EQ(seconds(type, mesh, step, costs) > 0.5, step.axis == 1);
}

}  // namespace
}  // namespace karez::sbp
