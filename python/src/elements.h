// Conversions between Python objects and the elements of data sets.
#pragma once

#include <nanobind/nanobind.h>

#include "karez/api/data_iterator.h"
#include "karez/api/images.h"
#include "python/src/value.h"

namespace karez::python {

// A reference to a Python object that any thread may destroy.
data::Object hold(nb::object object);
nb::handle handle_of(const data::Object& object);

enum class Copies { copy, borrow };

// An element with the nesting of tuples, lists and dicts. Numbers, tensors and arrays of supported dtypes become
// arrays, all other objects stay objects. With `borrow`, arrays share the bytes of NumPy arrays, which must not change.
data::Element element_from(nb::handle object, Copies copies = Copies::copy);
// The element as NumPy arrays, which are read-only, and objects, in its nesting; the same with tensors.
nb::object python_of(const data::Element& element);
nb::object tensors_of(const data::Element& element);
// The arguments for a function of an element: the items of a tuple, or the element itself.
nb::tuple arguments_of(const data::Element& element);
// Calls a Python function with them.
nb::object call(const data::Object& function, const data::Element& element);
// One of the two words of the key of a NumPy generator.
std::uint64_t key_word(const data::RandomKey& key, std::uint64_t first);
// The object that stands for a skipped element; set once, by the package.
void set_skip_object(nb::object object);
// What reports skipped records: function(count, first_error).
data::SkipReport skip_report(nb::object function);
// An element whose only field is the object.
data::Element opaque_element(nb::object object);

}  // namespace karez::python
