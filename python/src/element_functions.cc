// Calls Python functions for elements: in threads, which get the interpreter's lock once for several elements, or in
// worker processes.
#include "python/src/element_functions.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "python/src/elements.h"
#include "python/src/worker_pool.h"

namespace karez::python {
namespace {
using namespace nb::literals;
using data::Dataset;
using data::Element;
using data::GroupItem;

// The name of a Python function, for texts; "" if it has none.
std::string name_of(nb::handle function) {
  const nb::object name = nb::getattr(function, "__name__", nb::str(""));
  const std::string text = nb::isinstance<nb::str>(name) ? nb::cast<std::string>(name) : "";
  return text == "<lambda>" ? "" : text;
}

data::MapOptions process_options(const std::shared_ptr<WorkerPool>& pool, const std::string& name, int parallel,
                                 bool deterministic, std::uint8_t flags) {
  return {parallel,
          deterministic,
          name,
          pool->lanes(),
          [pool] { return pool->text(); },
          [pool, flags](std::span<GroupItem> items) { pool->compute(items, flags); }};
}

bool is_true(nb::handle value) {
  const int result = PyObject_IsTrue(value.ptr());
  if (result < 0) nb::raise_python_error();
  return result != 0;
}

nb::object call_random(const data::Object& f, const Element& element, const data::RandomKey& key) {
  return nb::borrow(handle_of(f))(key_word(key, 0), key_word(key, 2), *arguments_of(element));
}

// Calls f for each item, of which it sets the result, with the interpreter's lock.
template <class F> void for_each_item(std::span<GroupItem> items, const F& f) {
  with_gil([&] {
    for (GroupItem& item : items) {
      try {
        f(item);
      } catch (abi::__forced_unwind&) { throw; } catch (...) {
        item.error = std::current_exception();
      }
    }
  });
}

// `together` gets a list with the arguments of several calls of f, as tuples, and returns a list of the results. After
// an error in it, f is called for each of them.
data::GroupFunction group_function(const data::Object& f, const data::Object& together) {
  return [f, together](std::span<GroupItem> items) {
    const auto call_each = [&] {
      for_each_item(items, [&](GroupItem& item) { item.out = element_from(call(f, item.in)); });
    };
    if (handle_of(together).is_none()) return call_each();
    const bool succeeded = with_gil([&] {
      try {
        nb::list arguments;
        for (const GroupItem& item : items) arguments.append(arguments_of(item.in));
        const nb::object results = nb::borrow(handle_of(together))(arguments);
        for (std::size_t i = 0; i < items.size(); ++i) items[i].out = element_from(results[i]);
        return true;
      } catch (const nb::python_error& error) {
        if (!error.matches(PyExc_Exception)) throw;  // such as KeyboardInterrupt
        return false;
      } catch (const base::Error&) { return false; }
    });
    if (!succeeded) call_each();
  };
}

}  // namespace

void init_element_functions(nb::class_<Dataset>& type) {
  type.def(
      "map",
      [](const Dataset& self, nb::object f, int parallel, bool deterministic, nb::object together) {
        const std::string name = name_of(f);
        const data::Object function = hold(std::move(f));
        return self.map(
            [function](const Element& element) {
              return with_gil([&] { return element_from(call(function, element)); });
            },
            {.parallel = parallel,
             .deterministic = deterministic,
             .name = name,
             .group = group_function(function, hold(std::move(together)))});
      },
      "f"_a, "parallel"_a, "deterministic"_a, "together"_a.none());
  type.def("map_random", [](const Dataset& self, nb::object f, std::uint64_t seed, int parallel, bool deterministic) {
    const std::string name = name_of(f);
    const data::Object function = hold(std::move(f));
    return self.map(
        [function](const Element& element, const data::RandomKey& key) {
          return with_gil([&] { return element_from(call_random(function, element, key)); });
        },
        seed, {.parallel = parallel, .deterministic = deterministic, .name = name, .group = [function](auto items) {
                 for_each_item(items, [&](GroupItem& item) {
                   item.out = element_from(call_random(function, item.in, item.key));
                 });
               }});
  });
  type.def(
      "map_in_processes",
      [](const Dataset& self, std::shared_ptr<WorkerPool> pool, const std::string& name, int parallel,
         bool deterministic, std::optional<std::uint64_t> seed) {
        const std::uint8_t flags = seed ? random_flag : 0;
        const data::MapOptions options = process_options(pool, name, parallel, deterministic, flags);
        if (!seed) return self.map([pool](const Element& element) { return pool->map(element); }, options);
        return self.map([pool](const Element& element, const data::RandomKey& key) { return pool->map(element, key); },
                        *seed, options);
      },
      "pool"_a, "name"_a, "parallel"_a, "deterministic"_a, "seed"_a.none());
  type.def("filter_in_processes", [](const Dataset& self, std::shared_ptr<WorkerPool> pool, const std::string& name,
                                     int parallel, bool deterministic) {
    return self.filter([pool](const Element& element) { return pool->keeps(element); },
                       process_options(pool, name, parallel, deterministic, filter_flag));
  });
  type.def("filter", [](const Dataset& self, nb::object f, int parallel, bool deterministic) {
    const std::string name = name_of(f);
    const data::Object function = hold(std::move(f));
    return self.filter(
        [function](const Element& element) { return with_gil([&] { return is_true(call(function, element)); }); },
        {.parallel = parallel, .deterministic = deterministic, .name = name, .group = [function](auto items) {
           for_each_item(items, [&](GroupItem& item) { item.keep = is_true(call(function, item.in)); });
         }});
  });
}

}  // namespace karez::python
