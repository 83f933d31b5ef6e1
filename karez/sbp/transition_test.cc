// Tests of every one-axis transition by direct evaluation: each device has an array, a step is applied by its
// definition, and the logical tensor must stay the same.
#include "karez/sbp/transition.h"
#include "karez/base/test_error.h"
#include "karez/base/test_golden.h"
#include "karez/base/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "karez/base/error.h"
#include "karez/sbp/test_steps.h"

namespace karez::sbp {
namespace {

using Index = std::vector<std::int64_t>;

// The elements of the logical tensor that one device holds, by logical index.
template <class T> using DeviceContents = std::map<Index, T>;

template <class T> T combine(Reduce kind, T a, T b) {
  if (kind == Reduce::sum) return static_cast<T>(a + b);
  return kind == Reduce::max ? std::max(a, b) : std::min(a, b);
}
template <class T> T identity(Reduce kind) {
  if (kind == Reduce::sum) return T{};
  return kind == Reduce::max ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
}

// Coordinates, boxes and groups computed independently of the tested code. The last axis varies fastest.
std::vector<int> coordinates_of(const Mesh& mesh, int position) {
  std::vector<int> coordinates(mesh.axes.size(), 0);
  for (int step = 0; step < position; ++step)
    for (std::size_t a = coordinates.size(); a-- > 0 && ++coordinates[a] == mesh.axes[a].size;) coordinates[a] = 0;
  return coordinates;
}
// Splits nest in mesh-axis order; the first (size mod n) of the n parts of a range are one longer.
Box box_of(const Shape& shape, const Mesh& mesh, const Layout& layout, int position) {
  Box box;
  for (std::int64_t size : shape) box.push_back({0, size});
  for (int a = 0; a < mesh.rank(); ++a) {
    if (!layout[a].is_split()) continue;
    Range& range = box[layout[a].dim];
    std::int64_t size = range.end - range.begin, n = mesh.axes[a].size, end = range.begin;
    for (int part = 0; part <= coordinates_of(mesh, position)[a]; ++part) {
      range.begin = end;
      end += size / n + (part < size % n);
    }
    range.end = end;
  }
  return box;
}
std::int64_t elements_of(const Box& box) {
  std::int64_t count = 1;
  for (Range range : box) count *= range.end - range.begin;
  return count;
}
// Positions that differ from `position` only on `axis`, sorted by their coordinate on `axis`.
std::vector<int> members_of(const Mesh& mesh, int axis, int position) {
  std::vector<int> out, position_coordinates = coordinates_of(mesh, position);
  for (int p = 0; p < mesh.size(); ++p) {
    std::vector<int> coordinates = coordinates_of(mesh, p);
    coordinates[axis] = position_coordinates[axis];
    if (coordinates == position_coordinates) out.push_back(p);
  }
  return out;
}
void each_index(const Box& box, auto body) {
  Index index;
  for (Range range : box) index.push_back(range.begin);
  if (elements_of(box) == 0) return;
  while (true) {
    body(index);
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == box[d - 1].end) --d, index[d] = box[d].begin;
    if (d == 0) return;
  }
}

// A logical tensor distributed on a mesh.
template <class T> struct DistributedTensor {
  TensorType type;
  Mesh mesh;
  Layout layout;
  std::vector<DeviceContents<T>> devices;

  // Lists of devices that differ only on Partial axes.
  std::vector<std::vector<int>> summand_groups() const {
    std::map<std::vector<int>, std::vector<int>> groups;
    for (int p = 0; p < mesh.size(); ++p) {
      std::vector<int> key = coordinates_of(mesh, p);
      for (int a = 0; a < mesh.rank(); ++a)
        if (layout[a].is_partial()) key[a] = 0;
      groups[key].push_back(p);
    }
    std::vector<std::vector<int>> out;
    for (auto& [key, group] : groups) out.push_back(group);
    return out;
  }
  Reduce kind() const {
    for (Sbp sbp : layout)
      if (sbp.is_partial()) return sbp.reduce;
    return Reduce::sum;
  }
};

template <class T> T random_value(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, bool>) return random() % 2 == 1;
  return static_cast<T>(static_cast<std::int64_t>(random() % 201) -
                        100);  // sums of whole numbers are exact in every type
}

template <class T>
DistributedTensor<T> distribute(const DeviceContents<T>& logical, const TensorType& type, const Mesh& mesh,
                                const Layout& layout, std::mt19937_64& random) {
  DistributedTensor<T> out{type, mesh, layout, std::vector<DeviceContents<T>>(mesh.size())};
  std::map<std::pair<Index, std::size_t>, T> summands;
  auto groups = out.summand_groups();
  Reduce kind = out.kind();
  // All replicas of a summand must be equal, so it is drawn once for each coordinate on the Partial axes.
  for (const auto& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) out.devices[group[i]] = {};
    each_index(box_of(type.shape, mesh, layout, group[0]), [&](const Index& index) {
      if (!summands.count({index, 0})) {
        T rest = logical.at(index);
        std::size_t exact_member = random() % group.size();
        for (std::size_t i = 0; i < group.size(); ++i) {
          T value = random_value<T>(random);
          if (group.size() == 1 || (kind != Reduce::sum && i == exact_member)) value = logical.at(index);
          else if (kind == Reduce::max) value = std::min(value, logical.at(index));
          else if (kind == Reduce::min) value = std::max(value, logical.at(index));
          else if (i + 1 == group.size()) value = rest;
          rest = static_cast<T>(rest - value);
          summands[{index, i}] = value;
        }
      }
      for (std::size_t i = 0; i < group.size(); ++i) out.devices[group[i]][index] = summands.at({index, i});
    });
  }
  return out;
}

// Returns "" if every device (or sum of devices) holds the right elements of the logical tensor, otherwise the error.
template <class T> std::string difference(const DistributedTensor<T>& distributed, const DeviceContents<T>& logical) {
  DeviceContents<int> holder_count;
  for (const auto& group : distributed.summand_groups()) {
    Box box = box_of(distributed.type.shape, distributed.mesh, distributed.layout, group[0]);
    std::string fault;
    each_index(box, [&](const Index& index) {
      T value = distributed.devices[group[0]].at(index);
      for (std::size_t i = 1; i < group.size(); ++i)
        value = combine(distributed.kind(), value, distributed.devices[group[i]].at(index));
      if (value != logical.at(index))
        fault = cat("device ", group[0], " holds ", value, " for ", logical.at(index), " at ", index);
      ++holder_count[index];
    });
    for (int p : group)
      if (static_cast<std::int64_t>(distributed.devices[p].size()) != elements_of(box))
        fault = cat("device ", p, " holds more than its box");
    if (!fault.empty()) return fault;
  }
  for (const auto& [index, value] : logical)
    if (!holder_count.count(index)) return cat("no device holds ", index);
  return "";
}

// Applies a step by its definition.
template <class T> DistributedTensor<T> apply(const DistributedTensor<T>& before, const TransitionStep& step) {
  DistributedTensor<T> after{before.type, before.mesh, step.to, std::vector<DeviceContents<T>>(before.mesh.size())};
  Sbp from = step.from[step.axis], to = step.to[step.axis];
  for (int p = 0; p < before.mesh.size(); ++p) {
    std::vector<int> group = members_of(before.mesh, step.axis, p);
    int index_in_group = static_cast<int>(std::find(group.begin(), group.end(), p) - group.begin());
    const DeviceContents<T>& own_contents = before.devices[p];
    each_index(box_of(before.type.shape, before.mesh, step.to, p), [&](const Index& index) {
      T& value = after.devices[p][index];
      switch (step.move) {
        case Move::slice: value = own_contents.at(index); break;  // throws if the new box is not inside the old one
        case Move::to_partial:
          value = own_contents.count(index) && (from.is_split() || index_in_group == 0 || to.reduce != Reduce::sum)
                      ? own_contents.at(index)
                      : identity<T>(to.reduce);
          break;
        case Move::all_gather:
        case Move::all_to_all: {
          int holders = 0;
          for (int q : group) {
            if (!before.devices[q].count(index)) continue;
            value = before.devices[q].at(index);
            ++holders;
          }
          require(holders == 1, holders, " members hold ", index);
          break;
        }
        case Move::reduce_scatter:
        case Move::all_reduce:
          value = before.devices[group[0]].at(index);
          for (std::size_t i = 1; i < group.size(); ++i)
            value = combine(from.reduce, value, before.devices[group[i]].at(index));
          break;
      }
    });
  }
  return after;
}

std::vector<Layout> all_layouts(const TensorType& type, const Mesh& mesh) {
  std::vector<Sbp> entries;
  for (int d = 0; d < type.rank(); ++d) entries.push_back(S(d));
  for (Sbp sbp : {B(), P(), P(Reduce::max), P(Reduce::min)}) entries.push_back(sbp);
  std::vector<Layout> out{{}};
  for (int a = 0; a < mesh.rank(); ++a) {
    std::vector<Layout> extended;
    for (const Layout& layout : out)
      for (Sbp sbp : entries) {
        extended.push_back(layout);
        extended.back().push_back(sbp);
      }
    out = std::move(extended);
  }
  std::erase_if(out, [&](const Layout& layout) { return !is_valid(type, mesh, layout); });
  return out;
}

const std::vector<Mesh>& meshes() {
  static const std::vector<Mesh> all = [] {
    std::vector<Mesh> out;
    for (auto text : {"a=1", "a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3", "a=3,b=1", "a=2,b=2,c=2"})
      out.push_back(Mesh::parse(text));
    return out;
  }();
  return all;
}
const std::vector<Shape> shapes{{}, {1}, {5}, {0}, {6}, {5, 3}, {0, 3}, {2, 7}};
constexpr DType dtypes[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8};

TEST(Transition, EveryStepKeepsTheLogicalTensor) {
  std::mt19937_64 random(11);
  int transitions = 0;
  for (DType dtype : dtypes)
    for (const Mesh& mesh : meshes())
      for (const Shape& shape : shapes) {
        TensorType type{dtype, shape};
        with_type(dtype, [&]<class T>() {
          DeviceContents<T> logical;
          each_index(full_box(shape), [&](const Index& index) { logical[index] = random_value<T>(random); });
          for (const Layout& layout : all_layouts(type, mesh)) {
            DistributedTensor<T> distributed = distribute(logical, type, mesh, layout, random);
            ASSERT_EQ(difference(distributed, logical), "") << print(type, mesh, layout);
            for (const TransitionStep& step : steps_from(type, mesh, layout)) {
              DistributedTensor<T> after = apply(distributed, step);
              ASSERT_EQ(difference(after, logical), "")
                  << print(type, mesh, step.from) << " -> " << print(type, mesh, step.to);
              ++transitions;
            }
          }
        });
      }
  std::cout << transitions << " transitions\n";  // one for each step of each layout, mesh, shape and type above
  EXPECT_TRUE(pinned(transitions, 39530));
}

TEST(Transition, LocalBoxesAndGroupsEqualIndependentlyComputedOnes) {
  for (const Mesh& mesh : meshes())
    for (const Shape& shape : shapes)
      for (const Layout& layout : all_layouts({DType::f32, shape}, mesh))
        for (int p = 0; p < mesh.size(); ++p) {
          ASSERT_EQ(local_box(shape, mesh, layout, p), box_of(shape, mesh, layout, p))
              << print(layout) << " of " << cat(shape) << " at " << p;
          ASSERT_EQ(mesh.coordinates(p), coordinates_of(mesh, p));
          for (int axis = 0; axis < mesh.rank(); ++axis) ASSERT_EQ(mesh.group(axis, p), members_of(mesh, axis, p));
        }
}

TEST(Transition, StepsFromListsAllMovesOfOneAxis) {
  Mesh mesh = Mesh::parse("a=2");
  TensorType type{DType::f32, {4, 4}};
  auto from = [&](Sbp sbp) {
    return join(steps_from(type, mesh, {sbp}), " ",
                [](const TransitionStep& s) { return cat(name_of(s.move), ">", s.to[0]); });
  };
  EXPECT_EQ(from(S(0)), "all_to_all>S(1) all_gather>B to_partial>P(sum) to_partial>P(max) to_partial>P(min)");
  EXPECT_EQ(from(B()), "slice>S(0) slice>S(1) to_partial>P(sum) to_partial>P(max) to_partial>P(min)");
  EXPECT_EQ(from(P()), "reduce_scatter>S(0) reduce_scatter>S(1) all_reduce>B");
  type.dtype = DType::b8;
  EXPECT_EQ(from(B()), "slice>S(0) slice>S(1) to_partial>P(max) to_partial>P(min)");
}

TEST(Transition, AnAxisDoesNotChangeADimensionThatALaterAxisAlsoSplits) {
  Mesh mesh = Mesh::parse("a=2,b=2");
  TensorType type{DType::f32, {8}};
  auto to = [&](const Layout& from) {
    return join(steps_from(type, mesh, from), " ", [](const TransitionStep& s) { return print(s.to); });
  };
  EXPECT_EQ(to({S(0), S(0)}), "(S(0), B) (S(0), P(sum)) (S(0), P(max)) (S(0), P(min))");
  EXPECT_EQ(to({B(), S(0)}), "(P(sum), S(0)) (P(max), S(0)) (P(min), S(0)) (B, B) (B, P(sum)) (B, P(max)) (B, P(min))");
  EXPECT_EQ(to({P(), S(0)}), "(B, S(0)) (P(sum), B) (P(sum), P(sum))");
  mesh = Mesh::parse("a=2,b=1");  // an axis of one device splits nothing
  EXPECT_NE(to({S(0), S(0)}).find("(B, S(0))"), std::string::npos);
}

TEST(Transition, InvalidStepsAreErrors) {
  Mesh mesh = Mesh::parse("a=2,b=2");
  TensorType type{DType::f32, {8}};
  auto error_text = [&](TransitionStep step) { return error_of([&] { seconds(type, mesh, step, CostTable{}); }); };
  EXPECT_EQ(error_text({0, Move::all_gather, {S(0), S(0)}, {B(), S(0)}}),
            "transition: (S(0), S(0)) -> (B, S(0)) changes a dimension that an axis after a also splits");
  EXPECT_EQ(error_text({0, Move::slice, {S(0), B()}, {B(), B()}}),
            "transition: S(0) -> B requires all_gather, not slice");
  EXPECT_EQ(error_text({0, Move::slice, {P(), B()}, {P(Reduce::max), B()}}),
            "transition: P(sum) -> P(max) requires zero or several moves, not slice");
  EXPECT_EQ(error_text({1, Move::slice, {B(), B()}, {S(0), S(0)}}),
            "transition: (B, B) -> (S(0), S(0)) changes axis a, but the step is on b");
  EXPECT_NE(error_text({2, Move::slice, {B(), B()}, {B(), B()}}), "no error");
  EXPECT_NE(error_text({0, Move::slice, {B(), B()}, {S(1), B()}}), "no error");
  EXPECT_EQ(error_of([&] { steps_from(type, mesh, {B()}); }),
            "transition: layout (B) of f32[8] on mesh(a=2, b=2): expected 2 entries, one for each axis, got 1");
}

TEST(Transition, MovesHaveNames) {
  for (Move m :
       {Move::slice, Move::to_partial, Move::all_gather, Move::all_to_all, Move::reduce_scatter, Move::all_reduce})
    EXPECT_EQ(move_from(name_of(m)), m);
  EXPECT_EQ(
      error_of([] { move_from("gather"); }),
      "unknown move 'gather'; expected one of: slice, to_partial, all_gather, all_to_all, reduce_scatter, all_reduce");
}

}  // namespace
}  // namespace karez::sbp
