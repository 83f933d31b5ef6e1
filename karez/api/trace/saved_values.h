// Finds the values of a program that backward will read, so that a program which runs earlier keeps them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "karez/api/trace/expression_program.h"

namespace karez {

// Describes which expressions, results and arguments of a program have a record: with the program's key, all on which
// `values_for_backward` depends. It is empty if none has one.
std::string record_key(const ExpressionProgram& program);

// Returns the values that the gradients of the recorded results need, apart from results, arguments and parameters.
// Views are not among them, but what they view. Returns nothing if a gradient does not exist, since backward reports
// the error.
std::vector<ExpressionProgram::ValueSource> values_for_backward(const ExpressionProgram& program,
                                                                const DeviceMesh& mesh);

// A value of the program for backward, which `save` stores where backward finds it, after the computation.
struct SavedValue {
  std::shared_ptr<LazyValue> value;
  std::shared_ptr<const Expression> record;  // null if `value` belongs to a tensor, so that backward finds it anyway
  ValueId id;                                // in the record
  void save() const;
};
SavedValue saved_value(const ExpressionProgram& program, const ExpressionProgram::ValueSource& source);

}  // namespace karez
