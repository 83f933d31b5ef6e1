// The extension module karez._core, as a list of its parts.
#include "python/src/bindings.h"

#include "python/src/call_errors.h"
#include "python/src/errors.h"

NB_MODULE(_core, m) {
  nanobind::set_leak_warnings(false);  // if an error ends the program, its traceback still holds objects
  m.doc() = "The C++ part of Karez; users import karez.";
  m.attr("__version__") = KAREZ_VERSION;
  karez::python::init_errors(m);
  karez::python::init_world(m);
  karez::python::init_tensor(m);
  karez::python::init_writes(m);
  karez::python::init_autograd(m);
  karez::python::init_parts(m);
  karez::python::init_dlpack(m);
  karez::python::init_interactive(m);
  karez::python::init_functions(m);
  karez::python::init_layers(m);
  karez::python::init_random(m);
  karez::python::init_scan(m);
  karez::python::init_gradients(m);
  karez::python::init_guards(m);
  karez::python::init_compile(m);
  karez::python::init_optim(m);
  karez::python::init_images(m);
  karez::python::init_datasets(m);
  karez::python::init_formats(m);
  karez::python::init_progress(m);
  karez::python::init_user_line(m);
  karez::python::init_module_members(m);
  karez::python::init_profile(m);
  karez::python::explain_calls(m);
}
