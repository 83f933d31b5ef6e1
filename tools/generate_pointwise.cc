// Writes Highway kernels for every expression of the pointwise table: generate_pointwise FILE.
#include <fstream>
#include <iostream>
#include <map>

#include "karez/base/expr.h"
#include "karez/base/text.h"
#include "karez/ops/pointwise.h"
#include "tools/namespace.h"

namespace karez::tools {
namespace {

// The statements that compute one expression on vectors. Equal subexpressions are computed once; the compiler schedules
// the statements.
class Body {
 public:
  explicit Body(const Expr& expr) : masks_(static_cast<std::size_t>(variable_count(expr))) {
    find_masks(expr);
    result_ = value(expr);
    result_is_mask_ = is_mask(expr);
  }

  const std::vector<bool>& masks() const { return masks_; }  // which variables are bools
  bool result_is_mask() const { return result_is_mask_; }
  std::string text() const { return cat(statements_, "    return ", result_, ";\n"); }

 private:
  void find_masks(const Expr& e) {
    for (int k = 0; k < operands_of(e->kind); ++k) {
      const Expr& operand = e->operands[static_cast<std::size_t>(k)];
      if (requires_mask(e->kind, k) && operand->kind == ExprKind::variable)
        masks_[static_cast<std::size_t>(operand->variable)] = true;
      find_masks(operand);
    }
  }
  static bool requires_mask(ExprKind kind, int operand) {
    return kind == ExprKind::not_ || kind == ExprKind::and_ || kind == ExprKind::or_ ||
           (kind == ExprKind::select && operand == 0);
  }
  bool is_mask(const Expr& e) const {
    return is_boolean(e->kind) || (e->kind == ExprKind::variable && masks_[static_cast<std::size_t>(e->variable)]);
  }

  // Returns the name of a function and an opening parenthesis. Functions such as exp_of and select_of are in
  // karez/kernels/cpu/pointwise_lanes.h.
  static std::string function_of(ExprKind kind) {
    static const std::map<ExprKind, std::string> names = {
        {ExprKind::neg, "hn::Neg("},  {ExprKind::not_, "hn::Not("}, {ExprKind::add, "hn::Add("},
        {ExprKind::sub, "hn::Sub("},  {ExprKind::mul, "hn::Mul("},  {ExprKind::div, "hn::Div("},
        {ExprKind::lt, "hn::Lt("},    {ExprKind::le, "hn::Le("},    {ExprKind::gt, "hn::Gt("},
        {ExprKind::ge, "hn::Ge("},    {ExprKind::eq, "hn::Eq("},    {ExprKind::ne, "ne_of("},
        {ExprKind::and_, "hn::And("}, {ExprKind::or_, "hn::Or("},   {ExprKind::select, "select_of("},
    };
    auto at = names.find(kind);
    return at != names.end() ? at->second : cat(name_of(kind), "_of(");
  }

  // Writes the statements that compute the expression and returns the name of its value.
  std::string value(const Expr& e) {
    if (e->kind == ExprKind::variable) return cat("x", e->variable);
    std::string key = print(e);
    if (auto at = names_by_text_.find(key); at != names_by_text_.end()) return at->second;
    std::string statement;
    if (e->kind == ExprKind::constant) {
      statement = cat("lanes_of(static_cast<float>(", number(e->value), "))");
    } else {
      std::vector<std::string> operands;
      for (int k = 0; k < operands_of(e->kind); ++k) {
        const Expr& operand = e->operands[static_cast<std::size_t>(k)];
        require(is_mask(operand) == requires_mask(e->kind, k), "operand ", k, " of ", key,
                is_mask(operand) ? " must be a number, got a bool" : " must be a bool, got a number");
        operands.push_back(value(operand));
      }
      statement = cat(function_of(e->kind), join(operands, ", "), ")");
    }
    std::string name = cat("t", names_by_text_.size());
    statements_ += cat("    const ", is_mask(e) ? "M " : "V ", name, " = ", statement, ";\n");
    return names_by_text_[key] = name;
  }

  std::vector<bool> masks_;
  std::map<std::string, std::string> names_by_text_;
  std::string statements_, result_;
  bool result_is_mask_ = false;
};

// The file includes itself once for each instruction set that Highway compiles; only the code in the namespace is
// repeated.
constexpr const char* file_begin =
    R"(// GENERATED SOURCE: Highway kernels for every expression of karez/ops/pointwise.cc; written by tools/generate_pointwise.cc.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/pointwise_generated.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "karez/kernels/cpu/pointwise_generated.h"
#include "karez/kernels/cpu/pointwise_lanes.h"
#include "tools/namespace.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace {

)";

constexpr const char* table_begin = R"(}  // namespace

const GeneratedPointwise* generated_table() {
  static const GeneratedPointwise table[] = {
)";

constexpr const char* file_end = R"(  };
  return table;
}

}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
HWY_EXPORT(generated_table);

std::span<const GeneratedPointwise> generated_pointwise() {
  return {HWY_DYNAMIC_DISPATCH(generated_table)(), )";

std::string generate() {
  std::map<std::string, std::string> ops_by_expression;  // the names of the ops with each expression
  for (const Pointwise& row : pointwise_rows()) {
    std::string& names = ops_by_expression[row.expr];
    names += cat(names.empty() ? "" : ", ", row.name);
  }
  std::string code, table;
  int number = 0;
  for (const auto& [text, names] : ops_by_expression) {
    Body body(parse_expr(text));
    std::vector<std::string> parameters;
    std::string types;
    for (bool mask : body.masks()) {
      parameters.push_back(cat(mask ? "M x" : "V x", parameters.size()));
      types += mask ? 'b' : 'f';
    }
    types += body.result_is_mask() ? ">b" : ">f";
    code += cat("struct E", number, " {  // ", names, ": ", text, "\n  static HWY_INLINE ",
                body.result_is_mask() ? "M" : "V", " at(", join(parameters, ", "), ") {\n", body.text(), "  }\n};\n\n");
    table += cat("      {", quote(text), ", ", quote(types), ", run<E", number, ">},\n");
    ++number;
  }
  return cat(file_begin, code, table_begin, table, file_end, number,
             "};\n}\n\n}  // namespace karez::kernels\n#endif\n");
}

}  // namespace
}  // namespace karez::tools

int main(int argc, char** argv) {
  try {
    karez::base::require(argc == 2, "usage: generate_pointwise FILE");
    std::ofstream out(argv[1], std::ios::binary);
    out << karez::tools::generate();
    out.close();
    karez::base::require(out.good(), "cannot write ", argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "generate_pointwise: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
