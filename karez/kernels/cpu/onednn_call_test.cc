// Tests that a description of a oneDNN kernel has the workspace of the kernel that runs.
#include "karez/kernels/cpu/onednn_call.h"

#include <gtest/gtest.h>

namespace karez::kernels {
namespace {

struct Case {
  const char* op;
  OneDnnBuild build;
  std::vector<View> in, out;
  Attrs attrs;
};

CallSpec call_of(const Case& one) {
  CallSpec call;
  call.op = one.op, call.in = one.in, call.out = one.out, call.attrs = one.attrs;
  return call;
}

View channels_last_view(const Shape& shape) { return View(DType::f32, shape, channels_last(shape)); }

const Case cases[] = {
    {"matmul", onednn_matmul, {View(DType::f32, {7, 16}), View(DType::f32, {16, 9})}, {View(DType::f32, {7, 9})}, {}},
    {"matmul",
     onednn_matmul,
     {View(DType::f32, {5, 16}), View(DType::f32, {9, 16}), View(DType::f32, {9})},
     {View(DType::f32, {5, 9})},
     Attrs().set("transpose_b", true).set("bias", true)},
    {"conv2d",
     onednn_conv2d,
     {channels_last_view({2, 16, 9, 9}), View(DType::f32, {32, 16, 3, 3})},
     {channels_last_view({2, 32, 7, 7})},
     {}},
};

TEST(OneDnnCall, ADescriptionHasTheImplementationAndTheWorkspaceOfTheKernel) {
  int large = 0;
  for (const Case& one : cases) {
    std::string described, made;
    OneDnnCall description(1, OneDnnUse::describe), kernel(1, OneDnnUse::run);
    const CallSpec call = call_of(one);
    const bool is_built = one.build(kernel, call, made);
    EXPECT_EQ(one.build(description, call, described), is_built) << print(call);
    EXPECT_EQ(described, made) << print(call);
    EXPECT_EQ(description.workspace(), kernel.workspace()) << print(call);
    large += kernel.workspace() > 0;
  }
  EXPECT_GT(large, 0);  // at least one case has a scratchpad or a reordered operand
}

}  // namespace
}  // namespace karez::kernels
