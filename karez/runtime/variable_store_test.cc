// Tests of the variable store: variables are found and forgotten by device and name.
#include "karez/runtime/variable_store.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"

namespace karez::runtime {
namespace {

const PlanDevice first{0, 0}, second{0, 1};

TEST(VariableStore, AVariableIsFoundOnItsDeviceOnly) {
  VariableStore store;
  store.add({"0.0", "w"}, std::make_shared<Variable>());
  EXPECT_NE(store.find({"0.0", "w"}), nullptr);
  EXPECT_EQ(store.at(first, "w"), store.find({"0.0", "w"}));
  EXPECT_EQ(store.find({"0.1", "w"}), nullptr);
}

TEST(VariableStore, AnUnknownNameIsAnErrorThatListsTheVariablesOfTheDevice) {
  VariableStore store;
  store.add({"0.0", "weight"}, std::make_shared<Variable>());
  store.add({"0.1", "bias"}, std::make_shared<Variable>());
  const std::string error = error_of([&] { store.at(second, "weight"); });
  EXPECT_EQ(error.find("device 0.1 has no variable 'weight'; "), 0u) << error;
  EXPECT_NE(error.find("bias"), error.npos) << error;
}

TEST(VariableStore, AForgottenVariableExistsUntilItsLastUserDropsIt) {
  VariableStore store;
  const auto variable = std::make_shared<Variable>();
  for (const char* device : {"0.0", "0.1"}) store.add({device, "w"}, variable);
  store.add({"0.0", "b"}, std::make_shared<Variable>());
  EXPECT_EQ(variable.use_count(), 3);
  store.forget("w");
  EXPECT_EQ(variable.use_count(), 1);
  EXPECT_EQ(store.find({"0.0", "w"}), nullptr);
  EXPECT_NE(store.find({"0.0", "b"}), nullptr);
}

TEST(VariableStore, EachDeviceHasOneArena) {
  VariableStore store;
  EXPECT_EQ(store.arena("0.0"), store.arena("0.0"));
  EXPECT_NE(store.arena("0.0"), store.arena("0.1"));
}

}  // namespace
}  // namespace karez::runtime
