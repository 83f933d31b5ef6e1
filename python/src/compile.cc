// Bindings of compiled functions, whose body is a Python callable, with their arguments and results.
#include "karez/api/compile.h"
#include "karez/api/function_transforms.h"

#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

thread_local std::unordered_map<PyObject*, Tensor> captured_inputs;  // the inputs of the outermost trace, by object

// A context manager. In its scope, inputs of the trace replace these objects.
struct CapturedInputs {
  std::vector<std::pair<nb::object, nb::object>> pairs;  // an object and its input, a Value
  void enter() const {
    for (const auto& [object, input] : pairs)
      if (const Tensor* tensor = nb::inst_ptr<Value>(input)->tensor()) captured_inputs.emplace(object.ptr(), *tensor);
  }
};

// Returns a body that calls a Python callable. A thread may copy, call or destroy the body without the interpreter's
// lock.
Body body_of(nb::object callable) {
  std::shared_ptr<nb::object> function_object(new nb::object(std::move(callable)), [](nb::object* object) {
    nb::gil_scoped_acquire lock;
    delete object;
  });
  return [function_object](std::span<const Tensor> inputs) {
    nb::gil_scoped_acquire lock;
    nb::list values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Value value(inputs[i]);
      value.argument = static_cast<int>(i);
      values.append(std::move(value));
    }
    const nb::object results = (*function_object)(values);
    std::vector<Tensor> out;
    for (nb::handle result : results) {
      const Term term = Operand{nb::borrow(result)};  // a parameter or a number is a result too
      const auto* tensor = std::get_if<Tensor>(&term.value);
      out.push_back(tensor != nullptr ? *tensor : term.is_number() ? broadcast_to(term, {}) : stop_gradient(term));
    }
    return out;
  };
}

// Sets the names of parameters in the program that is being traced.
void name_parameters(const std::vector<std::pair<const Value*, std::string>>& paths) {
  std::vector<std::pair<Parameter, std::string>> list;
  for (const auto& [value, path] : paths) list.emplace_back(value->parameter(), path);
  set_trace_paths(list);
}

// The result of kz.local.
struct LocalRows {
  Argument argument;
};

Argument argument_of(nb::handle object) {
  if (nb::isinstance<LocalRows>(object)) return nb::inst_ptr<LocalRows>(object)->argument;
  if (nb::isinstance<Value>(object)) return Argument(nb::inst_ptr<Value>(object)->outside(), user_line());
  if (PyFloat_Check(object.ptr())) return HostArray::of<double>({}, {PyFloat_AS_DOUBLE(object.ptr())});
  return host_array(object);
}

nb::list call(const Function& function, const nb::list& arguments) {
  std::vector<Argument> given;
  given.reserve(arguments.size());
  for (nb::handle argument : arguments) given.push_back(argument_of(argument));
  std::optional<Future> future;
  {
    GilRelease without_gil;
    future = function.call(std::move(given));
  }
  nb::list out;
  for (std::size_t i = 0; i < future->size(); ++i) out.append(Value(future->value(i)));
  return out;
}

std::vector<Value> inlined(const Function& function, const Operands& operands) {
  std::vector<Term> terms;
  for (const Operand& operand : operands) {  // a number has the type f64[], as in a call from outside of a trace
    const bool is_number = PyFloat_Check(operand.object.ptr()) && captured_input(operand.object) == nullptr;
    if (is_number)
      terms.emplace_back(constant(HostArray::of<double>({}, {PyFloat_AS_DOUBLE(operand.object.ptr())}), user_line()));
    else terms.push_back(operand);
    terms.back().as_number = Term::AsNumber::no;
  }
  GilRelease without_gil;  // this call may wait for another thread that traces the function and needs the lock
  const Tensors outputs = function.inlined(terms);
  return {outputs.list.begin(), outputs.list.end()};
}

std::vector<PlacementRule> placements_from(const nb::list& rules) {
  std::vector<PlacementRule> out;
  for (nb::handle rule : rules) {
    const auto [module, where] = nb::cast<std::pair<std::string, nb::object>>(rule);
    if (nb::isinstance<DeviceMesh>(where)) out.push_back({module, *nb::inst_ptr<DeviceMesh>(where)});
    else out.push_back({module, nb::cast<int>(where)});
  }
  return out;
}

// A rule of kz.compile: the pattern, and the layout by dimension or by mesh axis.
using NamedLayout = std::tuple<std::string, std::vector<std::string>, std::vector<std::pair<std::string, int>>>;

Function make_function(const DeviceMesh& mesh, nb::object body, const std::string& name, const std::string& file,
                       unsigned line, const std::vector<NamedLayout>& rules, const nb::list& placements,
                       std::vector<std::string> remat, int microbatches, std::vector<int> unbatched, bool check_nan,
                       std::string amp, std::vector<std::string> off, int keep, bool reassociate) {
  FunctionOptions options;
  for (const auto& [pattern, axes, splits] : rules) {
    options.rules.push_back({pattern, axes});
    for (const auto& [axis, dim] : splits) options.rules.back().splits.push_back({axis, dim});
  }
  options.placements = placements_from(placements);
  options.remat = std::move(remat);
  options.microbatches = microbatches;
  options.unbatched = std::move(unbatched);
  options.check_nan = check_nan;
  options.amp = std::move(amp);
  options.name = name;
  options.off = std::move(off);
  options.reassociate = reassociate;
  options.keep = keep;
  return Function(mesh, -1, body_of(std::move(body)), std::move(options), line_of(file, line));
}

// A context manager that makes and destroys a C++ scope.
template <class Scope> struct ScopeHandle { std::unique_ptr<Scope> scope; };

}  // namespace

const Tensor* captured_input(nb::handle object) {
  if (captured_inputs.empty()) return nullptr;
  const auto found = captured_inputs.find(object.ptr());
  return found == captured_inputs.end() ? nullptr : &found->second;
}

void init_compile(nb::module_& m) {
  nb::class_<PlanPage>(m, "PlanPage")
      .def("text", &PlanPage::text, nb::call_guard<GilRelease>())
      .def("html", &PlanPage::html, nb::call_guard<GilRelease>());
  nb::class_<Function>(m, "Function")
      .def("call", &call)
      .def("inlined", &inlined)
      .def("with_body",
           [](const Function& function, nb::object body, std::vector<int> unbatched) {
             return function.with_body(body_of(std::move(body)), std::move(unbatched));
           })
      .def("compile",
           [](const Function& function, const std::vector<std::pair<Shape, DType>>& types) {
             std::vector<TensorType> list;
             for (const auto& [shape, dtype] : types) list.push_back({dtype, shape});
             GilRelease without_gil;
             function.compile(list);
           })
      .def("graph_text", &Function::graph_text, nb::call_guard<GilRelease>())
      .def("page", &Function::page, nb::call_guard<GilRelease>())
      .def("summary", &Function::summary, nb::call_guard<GilRelease>())
      .def("peak_bytes", &Function::peak_bytes, nb::call_guard<GilRelease>())
      .def("predicted_seconds", &Function::predicted_seconds, nb::call_guard<GilRelease>())
      .def("shard_report", &Function::shard_report, nb::call_guard<GilRelease>())
      .def("explain", &Function::explain, "value"_a, nb::call_guard<GilRelease>())
      .def("signatures", &Function::signatures, nb::call_guard<GilRelease>());
  m.def("name_parameters", &name_parameters);
  m.def(
      "mark_gradients",
      [](std::size_t first_output, const std::vector<const Value*>& parameters) {
        std::vector<Parameter> list;
        for (const Value* parameter : parameters) list.push_back(parameter->parameter());
        mark_gradients(first_output, list);
      },
      "first_output"_a, "parameters"_a,
      "The outputs of the function that is being traced, beginning with this one, are gradients of these parameters.");
  nb::class_<LocalRows>(m, "LocalRows", "This rank's rows of an argument.");
  m.def(
      "local", [](nb::object array, std::int64_t rows) { return LocalRows{local(host_array(array), rows)}; }, "array"_a,
      "rows"_a = 0,
      "Makes an argument of a compiled function from this rank's rows of a global array. The global array is split "
      "over its rows (dimension 0), and `array` contains the rows on this rank's devices. `rows` is the number of rows "
      "of the global array; with 0, all ranks have the same number of rows. An array of a wrong size raises an error "
      "that lists the possible sizes. With placements, the mesh is that of the placement that reads the argument. "
      "With micro-batches, each micro-batch takes an equal number of rows from each device.");
  m.def("make_function", &make_function, "mesh"_a, "body"_a, "name"_a, "file"_a, "line"_a, "rules"_a, "placements"_a,
        "remat"_a, "microbatches"_a, "unbatched"_a, "check_nan"_a, "amp"_a, "off"_a, "keep"_a, "reassociate"_a);
  nb::class_<CapturedInputs>(m, "CapturedInputs")
      .def(nb::init<std::vector<std::pair<nb::object, nb::object>>>())
      .def("__enter__", &CapturedInputs::enter)
      .def("__exit__", [](CapturedInputs&, nb::args) { captured_inputs.clear(); });
  nb::class_<ScopeHandle<Within>>(m, "Within", "Sets the module path of the nodes that are traced inside `with`.")
      .def("__init__",
           [](ScopeHandle<Within>* self, const std::string& path) {
             new (self) ScopeHandle<Within>{std::make_unique<Within>(path, user_line())};
           })
      .def("__enter__", [](ScopeHandle<Within>&) {})
      .def("__exit__", [](ScopeHandle<Within>& self, nb::args) { self.scope.reset(); });
}

}  // namespace karez::python
