// The functions that add the parts of the extension module, one for each file of bindings.
#pragma once

#include <nanobind/nanobind.h>

namespace karez::python {
namespace nb = nanobind;

void init_world(nb::module_& m);           // worlds and meshes on them
void init_tensor(nb::module_& m);          // tensors, arrays and parameters as one class
void init_writes(nb::module_& m);          // views of tensors, and writes
void init_autograd(nb::module_& m);        // gradients outside of compiled functions
void init_parts(nb::module_& m);           // the mesh, the layout and the parts of a tensor
void init_dlpack(nb::module_& m);          // tensors that share their memory with other libraries
void init_interactive(nb::module_& m);     // computation outside of compiled functions
void init_functions(nb::module_& m);       // functions of tensors
void init_layers(nb::module_& m);          // functions that layers compute
void init_random(nb::module_& m);          // random numbers
void init_user_line(nb::module_& m);       // the line of the program that errors name
void init_module_members(nb::module_& m);  // changes of the parameters of modules
void init_scan(nb::module_& m);            // loops in a program
void init_gradients(nb::module_& m);       // gradients and their hooks
void init_guards(nb::module_& m);          // guards of captured values
void init_compile(nb::module_& m);         // compiled functions and their results
void init_optim(nb::module_& m);           // optimisers and schedules
void init_images(nb::module_& m);          // functions of images and sounds
void init_datasets(nb::module_& m);        // data sets and their iterators
void init_formats(nb::module_& m);         // data sets of the records of files
void init_progress(nb::module_& m);        // the progress line
void init_profile(nb::module_& m);         // profiles of running programs

}  // namespace karez::python
