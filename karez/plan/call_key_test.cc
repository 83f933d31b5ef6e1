// Tests of keys of calls: equal calls have equal keys, and every field changes the key.
#include "karez/plan/call_key.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

namespace karez::plan {
namespace {

CallSpec test_call() {
  CallSpec call;
  call.op = "op";
  call.in = {View(DType::f32, {2, 3}), View(DType::f32, {3})};
  call.out = {View(DType::f32, {2})};
  call.attrs = Attrs().set("axis", 1).set("name", "a").set("axes", Ints{1, 2});
  return call;
}

TEST(CallKey, EqualCallsHaveEqualKeysAndEveryFieldChangesTheKey) {
  EXPECT_EQ(call_key(test_call()), call_key(test_call()));
  const std::function<void(CallSpec&)> changes[] = {
      [](CallSpec&) {},
      [](CallSpec& c) { c.op = "other"; },
      [](CallSpec& c) { c.device = "cuda"; },
      [](CallSpec& c) { c.team = 2; },
      [](CallSpec& c) { c.in[0].dtype = DType::i32; },
      [](CallSpec& c) {
        c.in[0] = View(DType::f32, {3, 2});
      },
      [](CallSpec& c) {
        c.in[0] = View(DType::f32, {2, 3}, {1, 2});
      },
      [](CallSpec& c) {
        c.in[0] = View(DType::f32, {2, 3}, {0, 0});
      },
      [](CallSpec& c) { c.in.pop_back(); },
      [](CallSpec& c) { c.out.push_back(c.in.back()), c.in.pop_back(); },
      [](CallSpec& c) { c.out[0] = View(DType::f32, {}); },
      [](CallSpec& c) { c.attrs.set("axis", 2); },
      [](CallSpec& c) { c.attrs.set("axis", 1.0); },
      [](CallSpec& c) { c.attrs.set("axis", true); },
      [](CallSpec& c) { c.attrs.set("axis", std::nan("")); },
      [](CallSpec& c) { c.attrs.set("axis", 0.0); },
      [](CallSpec& c) { c.attrs.set("axis", -0.0); },
      [](CallSpec& c) { c.attrs.set("name", "b"); },
      [](CallSpec& c) { c.attrs.set("name", ""); },
      [](CallSpec& c) { c.attrs.set("axes", Ints{1}); },
      [](CallSpec& c) { c.attrs.erase("axes"); },
      [](CallSpec& c) { c.attrs.set("more", 1); },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    CallSpec call = test_call();
    change(call);
    EXPECT_TRUE(keys.insert(call_key(call)).second) << print(call);
  }
}

}  // namespace
}  // namespace karez::plan
