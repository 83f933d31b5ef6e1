// Compares row programs with one call for each statement, bit by bit, on every instruction set.
#include <gtest/gtest.h>

#include "karez/device/test_highway.h"
#include "karez/kernels/cpu/test_row_program.h"

namespace karez::kernels {
namespace {

using namespace row_testing;

constexpr const char* softmax =
    "x1 = row_max(x0); x2 = exp(x0 - x1); x3 = row_sum(x2); x4 = x2 / x3; return x4, x3, x1";
constexpr const char* layer_norm =
    "x5 = row_sum(x0); x6 = x5 * x3; x7 = x0 - x6; x8 = x7 * x7; x9 = row_sum(x8); x10 = x9 * x3; x11 = x10 + x4; "
    "x12 = rsqrt(x11); x13 = x7 * x12; x14 = x13 * x1; x15 = x14 + x2; return x15, x6, x12";
constexpr std::int64_t column_counts[] = {2, 3, 16, 17, 128, 500, 1000, 1025, 2047, 2048, 2049, 4099, 10000};

View full(std::int64_t rows, std::int64_t columns, DType dtype = DType::f32) { return View(dtype, {rows, columns}); }

TEST(RowProgramKernel, SoftmaxAndLayerNormHaveTheBitsOfSeparateCalls) {
  EXPECT_GE(
      on_every_instruction_set([](const char* name) {
        SCOPED_TRACE(name);
        for (const DType dtype : {DType::f32, DType::f64})
          for (const std::int64_t columns : column_counts)
            for (const std::int64_t rows : {1, 7, 20}) {
              const View x = full(rows, columns, dtype), row(dtype, {1, columns}), one(dtype, {1, 1});
              expect_as_separate({softmax, rows, columns, {x}, {dtype, dtype, dtype}, dtype}, 1);
              expect_as_separate({layer_norm, rows, columns, {x, row, row, one, one}, {dtype, dtype, dtype}, dtype}, 2);
            }
      }),
      2);
}

TEST(RowProgramKernel, NarrowOperandsAndResultsAreConvertedAsInSeparateCalls) {
  for (const DType half : {DType::bf16, DType::f16})
    for (const std::int64_t columns : column_counts) {
      const std::int64_t rows = 5;
      expect_as_separate(
          {"x4 = x0 * x1 + x2; x5 = row_sum(x4); x6 = x5 * x2; x7 = x4 * x0 + x6 * x3 + x0; "
           "x8 = x6 < x5; x9 = x0 < x6; return x7, x6, x8, x9, x5",
           rows,
           columns,
           {full(rows, columns, half), View(half, {1, columns}), View(half, {rows, 1}), full(rows, columns, DType::b8)},
           {half, half, DType::b8, DType::b8, DType::f32}},
          3);
    }
}

TEST(RowProgramKernel, OneHotMarksTheColumnOfAnIndex) {
  for (const DType index : {DType::i32, DType::i64})
    for (const std::int64_t columns : column_counts) {
      const std::int64_t rows = 9;
      expect_as_separate({"x2 = one_hot(x1); x3 = select(x2, x0, 0); x4 = row_sum(x3); x5 = x0 - x2; return x5, x4",
                          rows,
                          columns,
                          {full(rows, columns), View(index, {rows, 1})},
                          {DType::f32, DType::f32}},
                         4);
    }
}

TEST(RowProgramKernel, AnIndexOutsideOfTheColumnsIsReported) {
  const Case c{"x2 = one_hot(x1); x3 = x0 * x2; x4 = row_sum(x3); return x4",
               3,
               4,
               {full(3, 4), View(DType::i32, {3, 1})},
               {DType::f32}};
  std::vector<Buffer> in{filled<float>({3, 4}, std::vector<float>(12, 1)), filled<std::int32_t>({3, 1}, {0, 5, 1})};
  Attrs attrs{{"program", c.program}, {"of", std::string("the label")}, {"begin", Ints{2}}};
  try {
    run_row(table().row("hwy.row_program"), in, views_of_results(c), attrs);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) { EXPECT_STREQ(error.what(), "one_hot: the label 5 at [3] is outside 0 to 3"); }
  attrs.set("offset", std::int64_t{4}).set("limit", std::int64_t{8});  // the second half of eight columns
  std::vector<Buffer> out = run_row(table().row("hwy.row_program"), in, views_of_results(c), attrs);
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{0, 1, 0}));
}

TEST(RowProgramKernel, AResultMayHaveTheMemoryOfAnOperand) {
  for (const std::int64_t columns : {5, 128, 3000}) {
    const std::int64_t rows = 6;
    const Case c{
        "x2 = row_max(x0); x3 = x0 * x1; x4 = row_sum(x3); x5 = x0 * x2 + x4; x6 = x1 - x0; x7 = row_sum(x5); "
        "return x5, x6, x7",
        rows,
        columns,
        {full(rows, columns), full(rows, columns)},
        {DType::f32, DType::f32, DType::f32}};
    std::mt19937_64 random(5);
    std::vector<Buffer> in{Buffer(c.in[0]), Buffer(c.in[1])};
    for (Buffer& buffer : in) fill(buffer, random, columns);
    CallSpec call = call_of(c);
    call.out = views_of_results(c);
    const std::vector<Buffer> expected = separate(c, in, call.out);
    const KernelRow& row = table().row("hwy.row_program");
    std::vector<std::byte> workspace(static_cast<std::size_t>(row.workspace(call)) + 64);
    auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) / 64 * 64);
    Buffer sums(call.out[2]);
    std::vector<std::byte*> ins{in[0].bytes.data(), in[1].bytes.data()};
    std::vector<std::byte*> outs{in[1].bytes.data(), in[0].bytes.data(), sums.bytes.data()};
    row.prepare(call)({ins, outs, aligned});
    expect_bits(in[1], expected[0]);
    expect_bits(in[0], expected[1]);
    expect_bits(sums, expected[2]);
  }
}

TEST(RowProgramKernel, TheBitsDoNotDependOnTheTeam) {
  for (const std::int64_t columns : {100, 5000}) {
    const std::int64_t rows = 200000 / columns;
    const Case c{softmax, rows, columns, {full(rows, columns)}, {DType::f32, DType::f32, DType::f32}};
    std::mt19937_64 random(6);
    std::vector<Buffer> in{Buffer(c.in[0])};
    fill(in[0], random, columns);
    std::vector<std::vector<Buffer>> results;
    for (const int team : {1, 2, 3}) {
      CallSpec call = call_of(c, team);
      call.out = views_of_results(c);
      const KernelRow& row = table().row("hwy.row_program");
      std::vector<std::byte> workspace(static_cast<std::size_t>(row.workspace(call)) + 64);
      auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) / 64 * 64);
      results.emplace_back();
      std::vector<std::byte*> ins{in[0].bytes.data()}, outs;
      for (const View& view : call.out) results.back().emplace_back(view);
      for (Buffer& out : results.back()) outs.push_back(out.bytes.data());
      row.prepare(call)({ins, outs, aligned});
    }
    for (std::size_t team = 1; team < results.size(); ++team)
      for (std::size_t r = 0; r < 3; ++r) expect_bits(results[team][r], results[0][r]);
  }
}

// A program of random statements.
Case random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t count) { return static_cast<int>(random() % count); };
  Case c;
  c.rows = 1 + pick(12), c.columns = pick(8) == 0 ? 2000 + pick(3000) : 2 + pick(300);
  const DType dtypes[] = {DType::f32, DType::f32, DType::bf16, DType::f16, DType::b8};
  std::vector<bool> is_full, may_reduce;
  const int inputs = 1 + pick(4);
  for (int i = 0; i < inputs; ++i) {
    const DType dtype = i == 0 ? DType::f32 : dtypes[pick(std::size(dtypes))];
    const int extent = i == 0 ? 0 : pick(4);
    const Shape shape{extent == 0 || extent == 1 ? c.rows : 1, extent == 0 || extent == 2 ? c.columns : 1};
    c.in.emplace_back(dtype, shape);
    is_full.push_back(shape[1] == c.columns);
    may_reduce.push_back(extent == 0 && dtype == DType::f32);
  }
  RowProgram program;
  program.inputs = inputs;
  const char* unary[] = {"-x0", "x0 * 0.5 + 1", "exp(x0)", "tanh(x0)", "abs(x0)", "1 - x0", "max(x0, 0)"};
  const char* binary[] = {"x0 + x1", "x0 - x1", "x0 * x1", "x0 / x1", "max(x0, x1)", "select(x0 > x1, x0, x1 * 2)"};
  const int statements = 2 + pick(10);
  for (int s = 0; s < statements; ++s) {
    const int a = pick(is_full.size()), b = pick(is_full.size());
    if (pick(3) == 0) {
      std::vector<int> from;
      for (std::size_t v = 0; v < may_reduce.size(); ++v)
        if (may_reduce[v]) from.push_back(static_cast<int>(v));
      constexpr RowStatementKind kinds[] = {RowStatementKind::sum, RowStatementKind::max, RowStatementKind::min};
      program.statements.push_back({kinds[pick(3)], expr_variable(from[static_cast<std::size_t>(pick(from.size()))])});
      is_full.push_back(false), may_reduce.push_back(false);
      continue;
    }
    const Expr with[] = {expr_variable(a), expr_variable(b)};
    const bool one = pick(2) == 0;
    program.statements.push_back(
        {RowStatementKind::each, substitute(parse_expr(one ? unary[pick(7)] : binary[pick(6)]), with)});
    const bool full = is_full[static_cast<std::size_t>(a)] || (!one && is_full[static_cast<std::size_t>(b)]);
    is_full.push_back(full), may_reduce.push_back(full);
  }
  for (int r = 0; r < 1 + pick(3); ++r) program.results.push_back(inputs + pick(static_cast<std::size_t>(statements)));
  program.results.push_back(inputs + statements - 1);
  for (std::size_t r = 0; r < program.results.size(); ++r)
    c.out.push_back(r == 0 ? dtypes[pick(std::size(dtypes))] : DType::f32);
  c.program = print(program);
  return c;
}

TEST(RowProgramKernel, RandomProgramsHaveTheBitsOfSeparateCalls) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(name);
    for (std::uint64_t seed = 0; seed < 400; ++seed) expect_as_separate(random_case(seed), seed);
  });
}

TEST(RowProgramKernel, ThePlainRowAgrees) {
  for (const std::int64_t columns : {5, 130, 2500}) {
    const std::int64_t rows = 7;
    Case c{
        "x3 = row_sum(x0); x4 = x0 * x1 - x3; x5 = one_hot(x2); x6 = select(x5, x4, 0); x7 = row_sum(x6); "
        "x8 = row_min(x4); x9 = tanh(x4 * x8); x10 = x9 > 0; return x9, x10, x7",
        rows,
        columns,
        {full(rows, columns), View(DType::bf16, {1, columns}), View(DType::i32, {rows, 1})},
        {DType::f32, DType::b8, DType::f16}};
    CallSpec call = call_of(c);
    call.out = views_of_results(c);
    std::vector<Buffer> in;
    for (const View& view : c.in) fill_random(in.emplace_back(view), 8);
    std::vector<Buffer> fast = run_row(table().row("hwy.row_program"), in, call.out, call.attrs),
                        plain = run_row(table().row("plain.row_program"), in, call.out, call.attrs);
    for (std::size_t r = 0; r < plain.size(); ++r) EXPECT_LE(difference(fast[r], plain[r]), r == 2 ? 1e-3 : 2e-5) << r;
  }
}

TEST(RowProgramKernel, OperandsThatDoNotFitAreNotSupported) {
  const KernelRow& row = table().row("hwy.row_program");
  const auto supports = [&](const std::string& program, std::vector<View> in, View out) {
    CallSpec call;
    call.op = "row_program", call.attrs.set("program", program), call.in = std::move(in), call.out = {std::move(out)};
    return row.supports(call);
  };
  const View x = full(4, 6), y = full(4, 1);
  EXPECT_TRUE(supports("x1 = row_sum(x0); return x1", {x}, y));
  EXPECT_FALSE(supports("x1 = row_sum(x0); return x1", {x}, x));                        // another shape
  EXPECT_FALSE(supports("x1 = row_sum(x0); return x1", {full(4, 6, DType::bf16)}, y));  // not converted
  EXPECT_FALSE(supports("x1 = row_sum(x0); return x1", {x}, full(4, 1, DType::i32)));
  EXPECT_FALSE(supports("x1 = row_sum(x0); return x1", {View(DType::f32, {4, 6}, {1, 4})}, y));  // strides
  EXPECT_FALSE(supports("x1 = row_sum(x0); return x1", {x, x}, y));                              // operands
  EXPECT_FALSE(supports("x1 = one_hot(x0); return x1", {y}, x));                                 // not an index
  EXPECT_FALSE(supports("x1 = bitand(x0, 1); x2 = row_sum(x1); return x2", {x}, y));
}

}  // namespace
}  // namespace karez::kernels
