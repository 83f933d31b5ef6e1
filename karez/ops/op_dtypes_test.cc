// Tests of the dtypes that each op accepts, and of the operands that its results may overwrite, pinned in tables. In a
// table each line of letters is followed by the ops for which it holds; "1>0": result 0 may overwrite operand 1.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "karez/base/error.h"
#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/ops/test_node.h"

namespace karez::ops {
namespace {

struct Example {
  std::string op, types, attrs;
};

// Ops that are not in the table of pointwise ops, with valid operands and attributes. `scan` needs a region, and some
// ops have no operands.
const Example examples[] = {
    {"matmul", "f32[4, 5], f32[5, 6]", ""},
    {"conv2d", "f32[8, 3, 6, 6], f32[4, 3, 3, 3]", "{padding=[1, 1], stride=[1, 1]}"},
    {"conv2d_grad_input", "f32[8, 4, 6, 6], f32[4, 3, 3, 3]", "{padding=[1, 1], shape=[8, 3, 6, 6], stride=[1, 1]}"},
    {"conv2d_grad_weight", "f32[8, 3, 6, 6], f32[8, 4, 6, 6]", "{kernel=[3, 3], padding=[1, 1], stride=[1, 1]}"},
    {"max_pool", "f32[8, 3, 6, 6]", "{kernel=[2, 2], padding=[0, 0], stride=[2, 2]}"},
    {"max_pool_grad", "f32[8, 3, 3, 3], i32[8, 3, 3, 3]",
     "{kernel=[2, 2], padding=[0, 0], shape=[8, 3, 6, 6], stride=[2, 2]}"},
    {"avg_pool", "f32[8, 3, 7, 6]", "{kernel=[3, 2], padding=[1, 0], stride=[2, 2]}"},
    {"avg_pool_grad", "f32[8, 3, 4, 3]", "{kernel=[3, 2], padding=[1, 0], shape=[8, 3, 7, 6], stride=[2, 2]}"},
    {"reduce_sum", "f32[6, 4]", "{axes=[1]}"},
    {"reduce_max", "f32[6, 4]", "{axes=[1]}"},
    {"reduce_min", "f32[6, 4]", "{axes=[1]}"},
    {"broadcast", "f32[4]", "{dims=[1], shape=[6, 4, 5]}"},
    {"reshape", "f32[3, 4]", "{shape=[12]}"},
    {"transpose", "f32[6, 4, 5]", "{perm=[2, 0, 1]}"},
    {"slice", "f32[6, 4]", "{begin=[0, 1], size=[6, 2]}"},
    {"concat", "f32[6, 4], f32[6, 2]", "{axis=1}"},
    {"pad", "f32[6, 4]", "{high=[0, 2], low=[0, 1], value=0}"},
    {"gather", "f32[10, 4], i64[6, 5]", ""},
    {"scatter_add", "i64[6, 5], f32[6, 5, 4]", "{rows=10}"},
    {"cumsum", "f32[6, 4]", "{axis=1}"},
    {"sort", "f32[6, 4]", "{axis=1, first=3}"},
    {"take_along", "f32[6, 4], i64[6, 3]", "{axis=1}"},
    {"add_along", "i64[6, 3], f32[6, 3]", "{axis=1, size=4}"},
    {"one_hot", "i32[6]", R"({depth=10, dtype="f32"})"},
    {"random_uniform", "i64[2]", R"({dtype="f32", shape=[6, 4], site=3})"},
    {"arg_max", "f32[6, 4]", "{axis=1}"},
    {"cast", "f32[6]", R"({to="f64"})"},
    {"pointwise", "f32[6], f32[6], f32[6]", R"({expr="x0 * x1 + x2"})"},
    {"assign", "f32[6], f32[6]", ""},
    {"copy", "f32[6]", ""},
    {"layout", "f32[6]", ""},
    {"accumulate", "f32[6, 4]", ""},
    {"micro_join", "f32[6, 4]", "{axis=0, parts=3}"},
    {"micro_slice", "f32[6, 4]", "{axis=0, parts=3}"},
};

// One letter for each dtype.
constexpr std::pair<char, const char*> dtype_letters[] = {{'f', "f32"}, {'d', "f64"}, {'h', "f16"}, {'g', "bf16"},
                                                          {'i', "i32"}, {'l', "i64"}, {'b', "bool"}};

std::string letters_of(const std::vector<TensorType>& types) {
  std::string out;
  for (const TensorType& type : types)
    for (const auto& [letter, name] : dtype_letters)
      if (name_of(type.dtype) == name) out += letter;
  return out;
}

// Tries every combination of dtypes. Returns the accepted ones with the dtypes of the results: "ff>f dd>d".
std::string accepted_dtypes(const OpTable& ops, const Example& e) {
  std::vector<std::string> shapes;  // "[6, 4]"
  for (std::size_t at = e.types.find('['); at != std::string::npos; at = e.types.find('[', at + 1))
    shapes.push_back(e.types.substr(at, e.types.find(']', at) + 1 - at));
  std::vector<std::string> accepted;
  std::vector<std::size_t> dtypes(shapes.size(), 0);
  while (true) {
    std::string types;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      types += cat(i > 0 ? ", " : "", dtype_letters[dtypes[i]].second, shapes[i]);
    try {
      const SingleNodeGraph node = single_node_graph(ops, e.op, types, e.attrs);
      accepted.push_back(cat(letters_of(node.view().in_types()), ">", letters_of(node.view().out_types())));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::type) << error.what();
      EXPECT_EQ(std::string(error.what()).find(e.op), 0u) << "the error must name the op: " << error.what();
    }
    std::size_t i = shapes.size();
    while (i > 0 && ++dtypes[i - 1] == std::size(dtype_letters)) dtypes[--i] = 0;
    if (i == 0) return join(accepted, " ");
  }
}

std::vector<Example> all_examples() {
  std::vector<Example> out(std::begin(examples), std::end(examples));
  for (const OpDef& op : all_op_rows())
    if (!op.example.empty()) {
      const std::size_t begin = op.example.find('(') + 1, end = op.example.find(')');
      out.push_back({op.name, op.example.substr(begin, end - begin), op.example.substr(end + 1)});
    }
  return out;
}

// Prints each key on a line, followed by its names on lines of at most 100 columns.
std::string groups(const std::map<std::string, std::vector<std::string>>& names_by_key) {
  std::string text;
  for (const auto& [key, names] : names_by_key) {
    text += cat(key, "\n");
    std::string line = " ";
    for (const std::string& name : names) {
      if (line.size() + name.size() >= 100) text += line + "\n", line = " ";
      line += cat(" ", name);
    }
    text += line + "\n";
  }
  return text;
}

TEST(OpDtypes, TheAcceptedDtypesOfEveryOpAndTheErrorsForOthers) {
  const OpTable ops = all_ops();
  std::map<std::string, std::vector<std::string>> by_dtypes;
  for (const Example& e : all_examples()) by_dtypes[accepted_dtypes(ops, e)].push_back(e.op);
  EXPECT_TRUE(golden(groups(by_dtypes), R"(b>b
  not
bb>b
  and or
bf>f bd>d bh>h bg>g
  select_grad select_grad2
bff>f bdd>d bhh>h bgg>g bii>i bll>l bbb>b
  select
f>d d>d h>d g>d i>d l>d b>d
  cast
f>f d>d h>h g>g
  avg_pool avg_pool_grad exp log sqrt rsqrt tanh sigmoid relu gelu gelu_tanh silu erf sin cos resize
  resize_grad
f>f d>d h>h g>g i>i l>l
  reduce_sum reduce_max reduce_min cumsum accumulate neg abs
f>f d>d h>h g>g i>i l>l b>b
  broadcast reshape transpose slice pad copy layout micro_join micro_slice stop_gradient
f>fi d>di h>hi g>gi
  max_pool
f>fl d>dl h>hl g>gl i>il l>ll
  sort
f>l d>l h>l g>l i>l l>l
  arg_max
ff>b dd>b hh>b gg>b ii>b ll>b
  lt le gt ge
ff>b dd>b hh>b gg>b ii>b ll>b bb>b
  eq ne
ff>f dd>d hh>h gg>g
  conv2d conv2d_grad_input conv2d_grad_weight sqrt_grad rsqrt_grad tanh_grad sigmoid_grad relu_grad
  gelu_grad gelu_tanh_grad silu_grad erf_grad abs_grad sin_grad cos_grad pow
ff>f dd>d hh>h gg>g ii>i ll>l
  matmul add sub mul div max min
ff>f dd>d hh>h gg>g ii>i ll>l bb>b
  concat assign
fff>f ddd>d hhh>h ggg>g
  div_grad pow_grad pow_grad2 max_grad min_grad
fff>f ddd>d hhh>h ggg>g iii>i lll>l bbb>b
  pointwise
fi>f di>d hi>h gi>g
  max_pool_grad
fi>f fl>f di>d dl>d hi>h hl>h gi>g gl>g ii>i il>i li>l ll>l
  gather take_along
i>f l>f
  one_hot
if>f id>d ih>h ig>g ii>i il>l lf>f ld>d lh>h lg>g li>i ll>l
  scatter_add add_along
l>f
  random_uniform
)"));
}

TEST(OpDtypes, OperandsThatResultsMayOverwrite) {
  std::map<std::string, std::vector<std::string>> by_pairs;
  for (const OpDef& op : all_op_rows()) {
    const std::string pairs =
        join(op.in_place, " ", [](const auto& pair) { return cat(pair.first, ">", pair.second); });
    by_pairs[pairs.empty() ? "none" : pairs].push_back(op.name);
  }
  EXPECT_TRUE(golden(groups(by_pairs), R"(0>0
  neg exp log sqrt rsqrt tanh sigmoid relu gelu gelu_tanh silu erf abs sin cos stop_gradient not
  assign
0>0 1>0
  sqrt_grad rsqrt_grad tanh_grad sigmoid_grad relu_grad gelu_grad gelu_tanh_grad silu_grad erf_grad
  abs_grad sin_grad cos_grad add sub mul div pow max min and or
0>0 1>0 2>0
  div_grad pow_grad pow_grad2 max_grad min_grad
0>0 1>1
  sgd sgd_if
0>0 1>1 2>2
  adam adam_if
1>0
  select_grad select_grad2
1>0 2>0
  select
none
  input variable iota random_uniform constant eq ne lt le gt ge pointwise cast matmul conv2d
  conv2d_grad_input conv2d_grad_weight max_pool max_pool_grad avg_pool avg_pool_grad reduce_sum
  reduce_max reduce_min broadcast reshape transpose slice concat pad gather scatter_add cumsum sort
  take_along add_along resize resize_grad one_hot arg_max scan copy layout box transfer accumulate
  micro_join micro_slice
)"));
}

}  // namespace
}  // namespace karez::ops
