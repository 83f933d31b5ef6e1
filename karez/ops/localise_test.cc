// Tests of local calls: the attributes of each op on one device.
#include <gtest/gtest.h>

#include <set>

#include "karez/ops/test_node.h"

namespace karez::ops {
namespace {

// Returns the attributes of the call on device `position` of a mesh (x=2 by default), where each operand and result has
// one layout entry per mesh axis.
std::string local_attrs(std::string_view op, std::string_view types, std::string_view attrs, std::vector<Layout> in,
                        std::vector<Layout> out, int position, const Mesh& mesh = Mesh::of({{"x", 2}})) {
  static const OpTable ops = all_ops();
  SingleNodeGraph node = single_node_graph(ops, op, types, attrs);
  LocalView view{node.view(), {}, {}};
  for (std::size_t i = 0; i < in.size(); ++i)
    view.in.push_back(local_box(node.view().in_type(i).shape, mesh, in[i], position));
  for (std::size_t i = 0; i < out.size(); ++i)
    view.out.push_back(local_box(node.view().out_type(i).shape, mesh, out[i], position));
  return localise(view).print();
}

TEST(Localise, SourcesGetTheirLogicalPosition) {
  EXPECT_EQ(local_attrs("iota", "", R"({axis=0, dtype="i64", shape=[5, 4]})", {}, {{S(0)}}, 1),
            R"({axis=0, dtype="i64", shape=[2, 4], start=3})");
  EXPECT_EQ(local_attrs("iota", "", R"({axis=0, dtype="i64", shape=[5, 4]})", {}, {{S(1)}}, 1),
            R"({axis=0, dtype="i64", shape=[5, 2], start=0})");
  EXPECT_EQ(local_attrs("random_uniform", "i64[2]", R"({dtype="f32", shape=[5, 4], site=7})", {{B()}}, {{S(0)}}, 1),
            R"({begin=[3, 0], dtype="f32", logical=[5, 4], shape=[2, 4], site=7})");
  EXPECT_EQ(local_attrs("random_uniform", "i64[2]", R"({dtype="f32", shape=[5, 4, 3], site=7})", {{B()}}, {{S(2)}}, 1),
            R"({begin=[0, 0, 2], dtype="f32", logical=[5, 4, 3], shape=[5, 4, 1], site=7})")
      << "a later dimension must get its position, too";
  EXPECT_EQ(local_attrs("random_uniform", "i64[2]", R"({dtype="f32", shape=[5, 4], site=7})", {{B(), B()}},
                        {{S(1), S(0)}}, 3, Mesh::of({{"x", 2}, {"y", 2}})),
            R"({begin=[3, 2], dtype="f32", logical=[5, 4], shape=[2, 2], site=7})");
  EXPECT_EQ(local_attrs("constant", "", R"({dtype="f32", shape=[5], value=2.5})", {}, {{S(0)}}, 0),
            R"({dtype="f32", shape=[3], value=2.5})");
  EXPECT_EQ(local_attrs("variable", "", R"({dtype="f32", name="w", shape=[5]})", {}, {{S(0)}}, 1),
            R"({dtype="f32", name="w", shape=[2]})");
}

TEST(Localise, ConstantDataIsSlicedElementByElement) {
  const char* attrs = R"({data="0001020304050607", dtype="bool", shape=[2, 4]})";
  EXPECT_EQ(local_attrs("constant", "", attrs, {}, {{S(1)}}, 1), R"({data="02030607", dtype="bool", shape=[2, 2]})");
  EXPECT_EQ(local_attrs("constant", "", attrs, {}, {{S(0)}}, 0), R"({data="00010203", dtype="bool", shape=[1, 4]})");
  EXPECT_EQ(local_attrs("constant", "", attrs, {}, {{B()}}, 0), attrs);
  Mesh mesh = Mesh::of({{"x", 2}, {"y", 2}});
  EXPECT_EQ(local_attrs("constant", "", attrs, {}, {{S(0), S(1)}}, 2, mesh),
            R"({data="0405", dtype="bool", shape=[1, 2]})");
  EXPECT_EQ(local_attrs("constant", "", R"({data="0100000002000000", dtype="i32", shape=[2]})", {}, {{S(0)}}, 1),
            R"({data="02000000", dtype="i32", shape=[1]})");
  EXPECT_EQ(local_attrs("constant", "", R"({data="01", dtype="bool", shape=[1]})", {}, {{S(0)}}, 1),
            R"({data="", dtype="bool", shape=[0]})");
}

TEST(Localise, OpsWithIndicesGetTheBoundsOfTheirRows) {
  EXPECT_EQ(local_attrs("gather", "f32[5, 4], i64[6]", "", {{S(0)}, {B()}}, {{P()}}, 1), "{limit=5, offset=3}");
  EXPECT_EQ(local_attrs("gather", "f32[5, 4], i64[6]", "", {{S(0)}, {B()}}, {{P()}}, 0), "{limit=5}");
  EXPECT_EQ(local_attrs("gather", "f32[5, 4], i64[6]", "", {{B()}, {S(0)}}, {{S(0)}}, 1), "{begin=[3]}");
  EXPECT_EQ(local_attrs("scatter_add", "i64[6], f32[6, 4]", "{rows=5}", {{B()}, {B()}}, {{S(0)}}, 1),
            "{limit=5, offset=3, rows=2}");
  EXPECT_EQ(local_attrs("scatter_add", "i64[6], f32[6, 4]", "{rows=5}", {{S(0)}, {S(0)}}, {{P()}}, 1),
            "{begin=[3], rows=5}");
  EXPECT_EQ(local_attrs("take_along", "f32[3, 5], i64[3, 6]", "{axis=1}", {{S(1)}, {B()}}, {{P()}}, 1),
            "{axis=1, limit=5, offset=3}");
  EXPECT_EQ(local_attrs("take_along", "f32[5, 4], i64[6, 4]", "{axis=0}", {{S(1)}, {S(1)}}, {{S(1)}}, 1),
            "{axis=0, begin=[0, 2]}");
  EXPECT_EQ(local_attrs("add_along", "i64[3, 6], f32[3, 6]", "{axis=1, size=5}", {{B()}, {B()}}, {{S(1)}}, 1),
            "{axis=1, limit=5, offset=3, size=2}");
  EXPECT_EQ(local_attrs("add_along", "i64[3, 6], f32[3, 6]", "{axis=1, size=5}", {{S(1)}, {S(1)}}, {{P()}}, 1),
            "{axis=1, begin=[0, 3], size=5}");
  EXPECT_EQ(local_attrs("one_hot", "i64[6]", R"({depth=5, dtype="f32"})", {{B()}}, {{S(1)}}, 1),
            R"({depth=2, dtype="f32", limit=5, offset=3})");
  EXPECT_EQ(local_attrs("one_hot", "i64[6]", R"({depth=5, dtype="f32"})", {{S(0)}}, {{S(0)}}, 1),
            R"({begin=[3], depth=5, dtype="f32"})");
}

TEST(Localise, ShapesBecomeLocal) {
  EXPECT_EQ(local_attrs("broadcast", "f32[4]", "{dims=[1], shape=[5, 4]}", {{B()}}, {{S(0)}}, 1),
            "{dims=[1], shape=[2, 4]}");
  EXPECT_EQ(local_attrs("reshape", "f32[6, 4]", "{shape=[24]}", {{S(0)}}, {{S(0)}}, 1), "{shape=[12]}");
  EXPECT_EQ(local_attrs("slice", "f32[5, 4]", "{begin=[0, 1], size=[5, 2]}", {{S(0)}}, {{S(0)}}, 1),
            "{begin=[0, 1], size=[2, 2]}");
  EXPECT_EQ(local_attrs("pad", "f32[5, 4]", "{high=[0, 1], low=[0, 1], value=0}", {{S(0)}}, {{S(0)}}, 1),
            "{high=[0, 1], low=[0, 1], value=0}");
  EXPECT_EQ(local_attrs("conv2d_grad_input", "f32[5, 4, 6, 6], f32[4, 3, 3, 3]",
                        "{padding=[1, 1], shape=[5, 3, 6, 6], stride=[1, 1]}", {{S(0)}, {B()}}, {{S(0)}}, 1),
            "{padding=[1, 1], shape=[2, 3, 6, 6], stride=[1, 1]}");
  EXPECT_EQ(local_attrs("avg_pool_grad", "f32[5, 4, 3, 3]",
                        "{kernel=[2, 2], padding=[0, 0], shape=[5, 4, 6, 6], stride=[2, 2]}", {{S(1)}}, {{S(1)}}, 1),
            "{kernel=[2, 2], padding=[0, 0], shape=[5, 2, 6, 6], stride=[2, 2]}");
}

// The infer function must give a local call the shape of the local box, so that the attributes from localise match the
// views of kernels.
TEST(Localise, LocalCallsInferTheShapesOfTheLocalBoxes) {
  OpTable ops = all_ops();
  struct Case {
    std::string op, types, attrs;
  };
  std::vector<Case> cases = {
      {"matmul", "f32[7, 5], f32[5, 3]", ""},
      {"conv2d", "f32[5, 3, 6, 6], f32[4, 3, 3, 3]", "{padding=[1, 1], stride=[1, 1]}"},
      {"conv2d", "f32[5, 8, 6, 6], f32[12, 2, 3, 3]", "{groups=4, padding=[1, 1], stride=[1, 1]}"},
      {"conv2d_grad_input", "f32[5, 12, 6, 6], f32[12, 2, 3, 3]",
       "{groups=4, padding=[1, 1], shape=[5, 8, 6, 6], stride=[1, 1]}"},
      {"conv2d_grad_weight", "f32[5, 8, 6, 6], f32[5, 12, 6, 6]",
       "{groups=4, kernel=[3, 3], padding=[1, 1], stride=[1, 1]}"},
      {"conv2d_grad_input", "f32[5, 4, 6, 6], f32[4, 3, 3, 3]", "{padding=[1, 1], shape=[5, 3, 6, 6], stride=[1, 1]}"},
      {"conv2d_grad_weight", "f32[5, 3, 6, 6], f32[5, 4, 6, 6]", "{kernel=[3, 3], padding=[1, 1], stride=[1, 1]}"},
      {"max_pool", "f32[5, 3, 6, 6]", "{kernel=[2, 2], padding=[0, 0], stride=[2, 2]}"},
      {"max_pool_grad", "f32[5, 3, 3, 3], i32[5, 3, 3, 3]",
       "{kernel=[2, 2], padding=[0, 0], shape=[5, 3, 6, 6], stride=[2, 2]}"},
      {"reduce_max", "f32[7, 5]", "{axes=[0]}"},
      {"broadcast", "f32[5]", "{dims=[1], shape=[7, 5, 3]}"},
      {"reshape", "f32[6, 5, 4]", "{shape=[30, 4]}"},
      {"reshape", "f32[4, 6]", "{shape=[8, 3]}"},
      {"transpose", "f32[7, 5, 3]", "{perm=[2, 0, 1]}"},
      {"slice", "f32[7, 5]", "{begin=[0, 1], size=[7, 2]}"},
      {"concat", "f32[7, 5], f32[7, 2]", "{axis=1}"},
      {"pad", "f32[7, 5]", "{high=[0, 1], low=[0, 2]}"},
      {"gather", "f32[7, 5], i64[3]", ""},
      {"scatter_add", "i64[3], f32[3, 5]", "{rows=7}"},
      {"cumsum", "f32[7, 5]", "{axis=0}"},
      {"sort", "f32[7, 5]", "{axis=0, first=2}"},
      {"take_along", "f32[7, 5], i64[3, 5]", "{axis=0}"},
      {"add_along", "i64[3, 5], f32[3, 5]", "{axis=0, size=7}"},
      {"one_hot", "i64[3]", R"({depth=7, dtype="f32"})"},
      {"arg_max", "f32[7, 5]", "{axis=0}"},
      {"constant", "", R"({dtype="f32", shape=[7, 5], value=2})"},
      {"constant", "", R"({data="0100000002000000030000000400000005000000", dtype="i32", shape=[5]})"},
      {"iota", "", R"({axis=0, dtype="f32", shape=[7, 5]})"},
      {"random_uniform", "i64[2]", R"({dtype="f32", shape=[7, 5], site=0})"},
      {"sgd", "f32[7], f32[7], f32[7], f32[]", "{momentum=0.9}"},
      {"sgd_if", "f32[7], f32[7], f32[7], f32[], bool[]", "{momentum=0.9}"},
  };
  for (const OpDef* op : ops.rows()) {
    const std::string& example = op->example;
    const auto open = example.find('('), close = example.find(')');
    if (op->localise && !example.empty())
      cases.push_back({op->name, example.substr(open + 1, close - open - 1), example.substr(close + 1)});
  }
  int checked = 0;
  std::set<std::string> covered;
  for (const Case& c : cases) {
    covered.insert(c.op);
    for (int size : {2, 3, 4}) {
      Mesh mesh = Mesh::of({{"x", size}});
      SingleNodeGraph node = single_node_graph(ops, c.op, c.types, c.attrs);
      for (const Sharding& sharding : shardings(node.view(), size))
        for (int position = 0; position < size; ++position, ++checked) {
          LocalView view{node.view(), {}, {}};
          std::vector<TensorType> in;
          for (std::size_t i = 0; i < sharding.in.size(); ++i) {
            view.in.push_back(local_box(node.view().in_type(i).shape, mesh, {sharding.in[i]}, position));
            in.push_back({node.view().in_type(i).dtype, shape_of(view.in.back())});
          }
          for (std::size_t i = 0; i < sharding.out.size(); ++i)
            view.out.push_back(local_box(node.view().out_type(i).shape, mesh, {sharding.out[i]}, position));
          auto out = node.view().node().op->infer(in, localise(view));
          for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_EQ(out[i].shape, shape_of(view.out[i]))
                << c.op << " " << print(sharding) << " on device " << position;
        }
    }
  }
  EXPECT_GT(checked, 500);
  for (const OpDef* op : ops.rows())
    EXPECT_TRUE(!op->localise || covered.contains(op->name))
        << op->name << " has localise, but neither an example nor a case in this test";
}

}  // namespace
}  // namespace karez::ops
