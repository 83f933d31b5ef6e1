// Decides which expressions that read variables are deferred.
#pragma once

#include <memory>

#include "karez/api/trace/expression.h"

namespace karez {

// Returns whether the expression, which reads variables and updates none, need not run immediately. If so, marks it as
// one that reads variables. Call this when the expression is complete.
bool may_defer(Expression& expression);

// Makes the expression, which needs variables, run before one of them changes.
void defer(const std::shared_ptr<Expression>& expression, const SourceLine& where);

}  // namespace karez
