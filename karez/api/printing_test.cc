// Tests of the printed text of tensors and arrays.
#include <gtest/gtest.h>

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/test_golden.h"
#include "karez/base/text.h"

namespace karez {
namespace {

TEST(Printing, TextsShowTheLayoutAndTheCorners) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  Interactive scope(mesh);
  EXPECT_EQ(print(Tensor(HostArray::of<float>({3}, {1, 2.5f, -3e-9f}))), "f32[3] [1, 2.5, -3e-09]");
  const Tensor big = with_layout(iota({8, 9}, 0) * 10 + iota({8, 9}, 1), P("data", nullptr));
  EXPECT_TRUE(
      golden(cat(big),
             "f32[8@data, 9] [[0, 1, 2, ..., 6, 7, 8],\n [10, 11, 12, ..., 16, 17, 18],\n [20, 21, 22, ..., 26, 27, "
             "28],\n ...,\n"
             " [50, 51, 52, ..., 56, 57, 58],\n [60, 61, 62, ..., 66, 67, 68],\n [70, 71, 72, ..., 76, 77, 78]]"));
  EXPECT_EQ(print(big.array()), print(big));
  EXPECT_EQ(print(sum(big) > 5), "bool[] true");
  EXPECT_TRUE(golden(print(cast(full({1, 2, 2}, 7), DType::i64)), "i64[1, 2, 2] [[[7, 7],\n  [7, 7]]]"));
  EXPECT_EQ(print(full({2}, 0) / 0), "f32[2] [nan, nan]");
}

}  // namespace
}  // namespace karez
