// Tests of the kinds of errors that users see, and the lines that errors quote.
#include <gtest/gtest.h>

#include "karez/karez.h"

namespace {
using namespace karez;

struct CaughtError {
  ErrorKind kind = ErrorKind::hang;
  std::string where, text;
};

CaughtError catch_error(auto&& body) {
  try {
    body();
  } catch (const Error& error) { return {error.kind, error.where, error.what()}; }
  return {ErrorKind::hang, "", "no error"};
}

// Calls a function with two arrays of these types, and returns the error.
CaughtError call_error(TensorType a, TensorType b, auto&& body, std::vector<std::string> rule = {}) {
  World world({.devices = 2});
  FunctionOptions options;
  if (!rule.empty()) options.rules = {{"w", rule}};
  Parameter w("w", {DType::f32, {4, 4}}, constant_init(1));
  auto f = compile(
      world.mesh("model=2"), [&](Tensor x, Tensor y) { return sum(body(x, y)) + sum(w); }, options);
  return catch_error([&] { f(HostArray(a), HostArray(b)).wait(); });
}
const TensorType matrix{DType::f32, {4, 4}}, wide{DType::f32, {3, 8}}, labels{DType::i64, {4}};

TEST(Kinds, MismatchedSizesAreShapeErrorsAtTheUsersLine) {
  CaughtError error = call_error(matrix, wide, [](Tensor x, Tensor y) { return matmul(x, y); });
  EXPECT_EQ(error.kind, ErrorKind::shape) << error.text;
  EXPECT_EQ(error.where.rfind("error_kinds_test.cc:", 0), 0u) << error.where;
}

TEST(Kinds, MismatchedDtypesAreTypeErrors) {
  CaughtError error = call_error(matrix, labels, [](Tensor x, Tensor y) { return softmax(y) + sum(x); });
  EXPECT_EQ(error.kind, ErrorKind::type) << error.text;
}

TEST(Kinds, AnInvalidRuleIsALayoutError) {
  auto body = [](Tensor x, Tensor y) { return x + y; };
  EXPECT_EQ(call_error(matrix, matrix, body, {"model", "model"}).kind, ErrorKind::layout);
  EXPECT_EQ(call_error(matrix, matrix, body, {"", "", "model"}).kind, ErrorKind::layout);
}

TEST(Kinds, AnUnknownNameIsANameError) {
  CaughtError error = call_error(matrix, matrix, [](Tensor x, Tensor y) { return x + y; }, {"tokens"});
  EXPECT_EQ(error.kind, ErrorKind::name) << error.text;
  World world({.devices = 2});
  EXPECT_EQ(catch_error([&] { world.read("unknown"); }).kind, ErrorKind::name);
}

TEST(Kinds, AMissingDeviceIsADeviceError) {
  World world({.devices = 2});
  EXPECT_EQ(catch_error([&] { world.mesh("data=4"); }).kind, ErrorKind::device);
}

TEST(Kinds, AMissingDirectoryIsADataError) {
  EXPECT_EQ(catch_error([] { data::from_labelled_images("/nowhere/at/all", "train"); }).kind, ErrorKind::data);
}

TEST(Kinds, AnInvalidOptionIsAUserError) {
  EXPECT_EQ(catch_error([] { World({.devices = 0}); }).kind, ErrorKind::user);
}

}  // namespace
