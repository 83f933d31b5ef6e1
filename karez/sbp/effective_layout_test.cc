// Tests of layouts on axes of one device.
#include "karez/sbp/effective_layout.h"

#include <gtest/gtest.h>

namespace karez::sbp {
namespace {

TEST(EffectiveLayout, AnAxisOfOneDeviceAcceptsEveryEntryAndSplitsNothing) {
  const Mesh mesh = Mesh::parse("data=1,model=2");
  EXPECT_EQ(effective_layout(mesh, {S(0), S(1)}), (Layout{B(), S(1)}));
  EXPECT_EQ(effective_layout(mesh, {P(), P()}), (Layout{B(), P()}));
  EXPECT_EQ(effective_layout(Mesh::parse("data=2,model=2"), {S(0), S(1)}), (Layout{S(0), S(1)}));
  EXPECT_EQ(local_box({6, 4}, mesh, {S(0), S(1)}, 1), local_box({6, 4}, mesh, effective_layout(mesh, {S(0), S(1)}), 1));
  EXPECT_TRUE(layouts_agree(mesh, {B(), S(0)}, {S(1), S(0)})) << "a stored Broadcast satisfies S(1) on data";
  EXPECT_FALSE(layouts_agree(mesh, {S(0), S(0)}, {S(1), S(0)})) << "entries other than Broadcast must be equal";
  EXPECT_FALSE(layouts_agree(mesh, {B(), S(0)}, {B(), B()}));
  EXPECT_FALSE(layouts_agree(Mesh::parse("data=2,model=2"), {B(), B()}, {B(), S(0)}));
}

}  // namespace
}  // namespace karez::sbp
