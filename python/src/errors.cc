// Translates C++ errors into the exceptions of karez.errors.
#include "python/src/errors.h"

#include <nanobind/stl/string.h>

#include <array>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "python/src/bindings.h"

namespace karez::python {
namespace {

constexpr ErrorKind kinds[] = {ErrorKind::user,   ErrorKind::shape, ErrorKind::type, ErrorKind::layout, ErrorKind::name,
                               ErrorKind::device, ErrorKind::peer,  ErrorKind::hang, ErrorKind::data};

// Module state, written once when the module is imported: the exception class of each kind.
std::array<PyObject*, std::size(kinds)> exceptions;

// Hints for C++ users, and the corresponding hints for Python users.
constexpr std::pair<std::string_view, std::string_view> phrases[] = {
    {"load(path, {.parameters = net.state(), .extra = true})", "kz.load(path, net, extra=True)"},
    {"load(path, {.parameters = net.state()})", "kz.load(path, net)"},
    {"A WeightRule maps names and skips tensors if its name is empty",
     "names={theirs: ours} maps names and skips tensors if ours is empty"},
    {"A WeightRule maps names", "names={theirs: ours} maps names"},
    {"a rule with .transposed exchanges the dimensions", "transpose the array and pass it to net.load_state_dict"},
    {"ScanOptions::length must", "length must"},
    {"{.missing = true}", "missing=True"},
    {"{.extra = true}", "extra=True"},
};

void replace_all(std::string& text, std::string_view phrase, std::string_view replacement) {
  for (std::size_t at = text.find(phrase); at != text.npos; at = text.find(phrase, at + replacement.size()))
    text.replace(at, phrase.size(), replacement);
}

// Replaces World({.devices = 4, .team = 2}) with karez.init(devices=4, team=2), and WorldOptions::team with team=.
void translate_world_options(std::string& text) {
  constexpr std::string_view world = "World({", option = "WorldOptions::";
  for (std::size_t at = text.find(world); at != text.npos; at = text.find(world, at + 1)) {
    const std::size_t end = text.find("})", at);
    if (end == text.npos) break;
    std::string inside = text.substr(at + world.size(), end - at - world.size());
    replace_all(inside, " = ", "=");
    replace_all(inside, ", .", ", ");
    if (inside.starts_with('.')) inside.erase(0, 1);
    text.replace(at, end + 2 - at, "karez.init(" + inside + ")");
  }
  for (std::size_t at = text.find(option); at != text.npos; at = text.find(option, at)) {
    const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + option.size());
    if (end == text.npos) text += '=';
    else text.insert(end, 1, '=');
    text.erase(at, option.size());
  }
}

std::string to_python_text(std::string text) {
  for (const auto& [phrase, replacement] : phrases) replace_all(text, phrase, replacement);
  translate_world_options(text);
  return text;
}

void raise(const Error& error) {
  PyObject* type = exceptions[static_cast<std::size_t>(error.kind)];
  nb::object exception = nb::steal(PyObject_CallFunction(type, "s", to_python_text(error.what()).c_str()));
  if (!exception.is_valid()) return;  // Python has an error already
  exception.attr("where") = error.where;
  PyErr_SetObject(type, exception.ptr());
}

}  // namespace

void init_errors(nb::module_& m) {
  nb::module_ errors = nb::module_::import_("karez.errors");
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    std::string name(base::name_of(kinds[i]));
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    exceptions[i] = nb::object(errors.attr((name + "Error").c_str())).release().ptr();
  }
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      // Ctrl-C reaches all ranks, and when the first of them exits, the others get a peer error. If this rank was
      // interrupted too, it reports only the interrupt.
      if (error.kind == ErrorKind::peer && PyErr_CheckSignals() != 0) return;
      raise(error);
    } catch (const std::bad_cast&) {
      raise(Error(ErrorKind::type, "an argument, or an item of an argument, has an unsupported type"));
    } catch (const std::bad_alloc&) { raise(Error(ErrorKind::device, "out of host memory")); }
  });
  m.def("exit_code", [](const std::string& kind) {
    for (const ErrorKind each : kinds)
      if (base::name_of(each) == kind) return base::exit_code(each);
    std::string all;
    for (const ErrorKind each : kinds) all += cat(all.empty() ? "" : ", ", base::name_of(each));
    base::fail(ErrorKind::name, "unknown kind of error '", kind, "'; expected one of: ", all);
  });
}

}  // namespace karez::python
