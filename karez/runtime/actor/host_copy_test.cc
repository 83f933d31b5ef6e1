// Tests of strided copies on the host.
#include "karez/runtime/actor/host_copy.h"

#include <gtest/gtest.h>

#include <vector>

#include "karez/base/error.h"

namespace karez::runtime {
namespace {

TEST(HostCopy, StridedAndDenseTensorsAreCopied) {
  const Shape shape{2, 3, 4, 5};
  const std::vector<Strides> layouts = {row_major(shape), channels_last(shape), {200, 60, 15, 2}, {60, 20, 5, 1}};
  for (const Strides& from : layouts)
    for (const Strides& to : layouts) {
      View a(DType::i32, shape, from), b(DType::i32, shape, to);
      std::vector<std::int32_t> source(static_cast<std::size_t>(a.extent())),
          target(static_cast<std::size_t>(b.extent()), -1);
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::int32_t>(i);
      copy_tensor(reinterpret_cast<std::byte*>(target.data()), b, reinterpret_cast<const std::byte*>(source.data()), a);
      for_each_index(shape, [&](const auto& index) {
        ASSERT_EQ(target[static_cast<std::size_t>(offset_of(index, to))],
                  source[static_cast<std::size_t>(offset_of(index, from))]);
      });
    }
}

TEST(HostCopy, EmptyTensorsAndScalarsAreCopiedAndDifferentShapesAreRejected) {
  float from = 3, to = 0;
  auto* f = reinterpret_cast<std::byte*>(&from);
  auto* t = reinterpret_cast<std::byte*>(&to);
  copy_tensor(t, View(DType::f32, {4, 0}), f, View(DType::f32, {4, 0}));
  EXPECT_EQ(to, 0);
  copy_tensor(t, View(DType::f32, {}), f, View(DType::f32, {}));
  EXPECT_EQ(to, 3);
  EXPECT_THROW(copy_tensor(t, View(DType::f32, {1}), f, View(DType::f32, {})), Error);
  EXPECT_THROW(copy_tensor(t, View(DType::f32, {1}), f, View(DType::i32, {1})), Error);
}

}  // namespace
}  // namespace karez::runtime
