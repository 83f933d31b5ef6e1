// Implements value_and_grad.
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"

#include "karez/api/trace/expression.h"
#include "karez/base/text.h"

namespace karez {
ValueAndGradients value_and_gradients(const Body& f, const GradientOf& target, std::vector<Term> arguments,
                                      SourceLine where) {
  return at_line(where, [&](Trace& t) {
    std::vector<Tensor> inputs, variables;
    for (const Term& argument : arguments) inputs.push_back(t.tensor(t.value(argument, t.dtype_of(argument))));
    for (int i : target.arguments) {
      if (!target.parameters.empty()) break;
      require(i >= 0 && static_cast<std::size_t>(i) < inputs.size(), "value_and_grad: there is no argument ", i,
              "; the number of arguments is ", inputs.size());
      variables.push_back(inputs[static_cast<std::size_t>(i)]);
    }
    const std::vector<Tensor> values = f(inputs);
    require(values.size() == 1, "value_and_grad: the function returns ", values.size(),
            " tensors; it must return one scalar");
    const Term loss(values[0], where);
    return ValueAndGradients{values[0],
                             target.parameters.empty() ? grad(loss, variables) : grad(loss, target.parameters)};
  });
}

}  // namespace karez
