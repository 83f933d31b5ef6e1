// Tests of VariableTable: the keys of variables with the same name, and variables whose parameters no longer exist.
#include "karez/api/state/variable_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "karez/api/namespace.h"

namespace karez {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Parameter make_parameter() { return {"w", {DType::f32, {2}}, constant_init(0)}; }

TEST(VariableTable, AVariableIsErasedAfterItsParameterIsDestroyed) {
  VariableTable table;
  const Parameter remaining = make_parameter();
  std::optional<Parameter> destroyed = make_parameter();
  table.add({"w", 0}, remaining, Mesh::of({}), {});
  table.add({"w", 1}, *destroyed, Mesh::of({}), {});
  EXPECT_THAT(table.drop_expired(), IsEmpty());
  EXPECT_EQ(table.find(*destroyed)->first, VariableKey("w", 1));

  destroyed.reset();
  EXPECT_THAT(table.drop_expired(), ElementsAre(VariableKey("w", 1)));
  EXPECT_TRUE(table.contains(remaining));
  EXPECT_EQ(table.by_key.size(), 1u);
  EXPECT_EQ(table.keys.size(), 1u);
}

TEST(VariableTable, FreeKeySkipsAnOrdinalThatIsInUse) {
  VariableTable table;
  const Parameter first = make_parameter(), second = make_parameter();
  const VariableKey next{"w", second.ordinal()};
  EXPECT_EQ(table.free_key(second), next);
  table.add(next, first, Mesh::of({}), {});
  EXPECT_EQ(table.free_key(second), VariableKey("w", next.second + 1));
}

TEST(VariableTable, AClearedTableHasNoValuesForNewVariables) {
  VariableTable table;
  const Parameter parameter = make_parameter();
  table.add({"w", 0}, parameter, Mesh::of({}), {});
  table.relocated_values.emplace_back(parameter, HostArray::of<float>({2}, {1, 2}));
  table.clear();
  EXPECT_FALSE(table.contains(parameter));
  EXPECT_THAT(table.relocated_values, IsEmpty());
}

}  // namespace
}  // namespace karez
