// Bindings of data sets and their iterators.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "karez/karez.h"
#include "python/src/bindings.h"
#include "python/src/element_functions.h"
#include "python/src/elements.h"
#include "python/src/errors.h"
#include "python/src/image_function.h"
#include "python/src/value.h"
#include "python/src/worker_pool.h"

namespace karez::python {
namespace {
using namespace nb::literals;
using data::Dataset;
using data::Element;

data::LastBatch last_batch_from(const std::string& word) {
  for (const auto& [name, last] :
       {std::pair("keep", data::LastBatch::keep), {"drop", data::LastBatch::drop}, {"pad", data::LastBatch::pad}})
    if (word == name) return last;
  base::fail("last must be 'keep', 'drop' or 'pad', got '", word, "'");
}

// Paths are bytes, because not every path is valid UTF-8.
std::string text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// The data set that a function makes from an element; `f` returns an object of class Dataset.
std::function<Dataset(const Element&)> dataset_function(nb::object f) {
  return [f = hold(std::move(f))](const Element& element) {
    return with_gil([&] { return nb::cast<Dataset>(call(f, element).attr("_dataset")); });
  };
}

// Stores objects by Python functions: store(object) returns bytes, and restore(bytes) the object.
data::ObjectCodec codec_of(nb::object store, nb::object restore) {
  return {[f = hold(std::move(store))](const data::Object& object) {
            return with_gil([&] { return text_of(nb::cast<nb::bytes>(nb::borrow(handle_of(f))(handle_of(object)))); });
          },
          [f = hold(std::move(restore))](std::string_view bytes) {
            return with_gil([&] { return hold(nb::borrow(handle_of(f))(nb::bytes(bytes.data(), bytes.size()))); });
          }};
}

// `make(epoch)` returns an object with the methods next() (which raises StopIteration at the end), state() and
// restore(text); state() returns None if it has no state. If `opaque` is true, the elements are the objects themselves.
class PythonGenerator {
 public:
  PythonGenerator(const data::Object& make, std::int64_t epoch, bool opaque)
      : generator_(with_gil([&] { return hold(nb::borrow(handle_of(make))(epoch)); })),
        opaque_(opaque) {}
  std::optional<Element> next() const {
    return with_gil([&]() -> std::optional<Element> {
      try {
        nb::object item = nb::borrow(handle_of(generator_)).attr("next")();
        return opaque_ ? opaque_element(std::move(item)) : element_from(item);
      } catch (nb::python_error& error) {
        if (!error.matches(PyExc_StopIteration)) throw;
        return std::nullopt;
      }
    });
  }
  std::optional<std::string> state() const {
    return with_gil(
        [&] { return nb::cast<std::optional<std::string>>(nb::borrow(handle_of(generator_)).attr("state")()); });
  }
  void restore(const std::string& text) const {
    with_gil([&] { nb::borrow(handle_of(generator_)).attr("restore")(text); });
  }

 private:
  data::Object generator_;
  bool opaque_;
};

std::function<data::Generator(std::int64_t)> generator_function(nb::object make, bool opaque) {
  return [make = hold(std::move(make)), opaque](std::int64_t epoch) {
    const PythonGenerator python(make, epoch, opaque);
    data::Generator generator;
    generator.next = [python] { return python.next(); };
    if (!python.state()) return generator;
    generator.state = [python] { return python.state().value(); };
    generator.restore = [python](const std::string& text) { python.restore(text); };
    return generator;
  };
}

// An iterator that Python owns. Its destruction does not wait for functions of the data set, which may need the
// interpreter's lock or run for long.
struct OwnedIterator {
  explicit OwnedIterator(DataIterator owned) : iterator(std::make_unique<DataIterator>(std::move(owned))) {}
  ~OwnedIterator() {
    GilRelease without_gil;
    iterator->close(false);
    iterator.reset();
  }
  OwnedIterator(const OwnedIterator&) = delete;
  OwnedIterator& operator=(const OwnedIterator&) = delete;
  // Held by all functions but `close`, since several threads may call them. In a forked process it is an error, since
  // the thread that held the mutex may not exist.
  std::unique_lock<std::mutex> lock() {
    DataIterator::check_process();
    return std::unique_lock(mutex);
  }
  std::unique_ptr<DataIterator> iterator;
  std::mutex mutex;
};

void init_stages(nb::class_<Dataset>& type) {
  init_element_functions(type);
  type.def("map_images", [](const Dataset& self, const ImageFunction& f, std::uint64_t seed, int parallel,
                            bool deterministic, const std::string& name) {
    const data::MapOptions options{parallel, deterministic, name};
    return f.random == nullptr ? self.map(f.plain, options) : self.map(f.random, seed, options);
  });
  type.def("flat_map", [](const Dataset& self, nb::object f) { return self.flat_map(dataset_function(std::move(f))); });
  type.def("interleave", [](const Dataset& self, nb::object f, int cycle, int block, bool parallel, bool tuned) {
    return self.interleave(dataset_function(std::move(f)), {cycle, block, parallel, tuned});
  });
  type.def("shuffle", [](const Dataset& self, std::int64_t buffer, std::uint64_t seed, bool reshuffle) {
    return self.shuffle({buffer, seed, reshuffle});
  });
  type.def("batch", [](const Dataset& self, std::int64_t n, const std::string& last) {
    return self.batch(n, last_batch_from(last));
  });
  type.def("padded_batch", [](const Dataset& self, std::int64_t n, std::vector<Shape> shapes, const std::string& last) {
    return self.padded_batch(n, std::move(shapes), last_batch_from(last));
  });
  type.def("bucket_by_length", [](const Dataset& self, nb::object length, std::vector<std::int64_t> boundaries,
                                  std::vector<std::int64_t> batch_sizes, const std::string& last) {
    return self.bucket_by_length(
        [f = hold(std::move(length))](const Element& element) {
          return with_gil([&] { return nb::cast<std::int64_t>(call(f, element).attr("__index__")()); });
        },
        std::move(boundaries), std::move(batch_sizes), last_batch_from(last));
  });
  type.def("unbatch", &Dataset::unbatch);
  type.def("window", [](const Dataset& self, std::int64_t n, std::int64_t shift, const std::string& last) {
    return self.window(n, shift, last_batch_from(last));
  });
  type.def("repeat", &Dataset::repeat);
  type.def("take", &Dataset::take);
  type.def("skip", &Dataset::skip);
  type.def("subset", &Dataset::subset);
  type.def("shard", &Dataset::shard);
  type.def("cache", [](const Dataset& self) { return self.cache(); });
  type.def("cache_in_file", [](const Dataset& self, const nb::bytes& folder, nb::object store, nb::object restore) {
    return self.cache(text_of(folder), codec_of(std::move(store), std::move(restore)));
  });
  type.def("snapshot", [](const Dataset& self, const nb::bytes& path, nb::object store, nb::object restore) {
    const data::ObjectCodec codec = codec_of(std::move(store), std::move(restore));
    const std::string text = text_of(path);
    GilRelease without_gil;
    return self.snapshot(text, codec);
  });
  type.def("prefetch", &Dataset::prefetch);
  type.def(
      "with_options",
      [](const Dataset& self, std::optional<bool> deterministic, std::optional<std::int64_t> bytes,
         std::optional<int> cpu, std::optional<bool> oversize_is_error) {
        data::DatasetOptions options{deterministic, bytes, cpu, {}};
        if (oversize_is_error) options.oversize = *oversize_is_error ? data::Oversize::error : data::Oversize::pass;
        return self.with_options(options);
      },
      "deterministic"_a.none(), "bytes"_a.none(), "cpu"_a.none(), "oversize_is_error"_a.none());
  type.def("explain", &Dataset::explain);
  type.def("size", &Dataset::size);
  type.def("text", &Dataset::text);
  type.def("at", [](const Dataset& self, std::int64_t index, std::int64_t epoch) {
    std::optional<Element> element;
    {
      GilRelease without_gil;
      const base::InterruptScope interrupt([] {  // such as by Ctrl-C while a worker process computes
        with_gil([] {
          if (PyErr_CheckSignals() != 0) nb::raise_python_error();
        });
      });
      element = self.at(index, epoch);
    }
    return python_of(*element);
  });
}

void init_sources(nb::module_& m) {
  m.def("range_dataset",
        [](std::int64_t begin, std::int64_t end, std::int64_t step) { return data::range(begin, end, step); });
  m.def("arrays_dataset", [](nb::handle arrays) {
    const Element element = element_from(arrays, Copies::borrow);
    std::vector<HostArray> fields;
    for (std::size_t i = 0; i < element.fields.size(); ++i) fields.push_back(data::array_of(element, i));
    return data::from_arrays(std::move(fields), element.structure);
  });
  m.def(
      "labelled_images_dataset",
      [](const std::string& directory, const std::string& part, int classes, float mean, float deviation) {
        return data::from_labelled_images(directory, part, {classes, mean, deviation});
      },
      nb::call_guard<GilRelease>());
  m.def("function_dataset", [](std::int64_t size, nb::object f, const std::string& name) {
    return data::from_function(
        size,
        [f = hold(std::move(f))](std::int64_t index) {
          return with_gil([&] { return element_from(nb::borrow(handle_of(f))(index)); });
        },
        name);
  });
  m.def("files_dataset", [](const std::vector<nb::bytes>& patterns, nb::object read) {
    std::vector<std::string> texts;
    for (const nb::bytes& pattern : patterns) texts.push_back(text_of(pattern));
    return data::from_files(std::move(texts), [f = hold(std::move(read))](const std::string& path) {
      return with_gil([&] {
        nb::object text = nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), std::ssize(path)));
        if (!text.is_valid()) nb::raise_python_error();
        return element_from(nb::borrow(handle_of(f))(text));
      });
    });
  });
  m.def("generator_dataset", [](nb::object make, const std::string& name, bool opaque) {
    return data::from_generator(generator_function(std::move(make), opaque), name);
  });
  m.def("zip_datasets", [](std::vector<Dataset> inputs) { return data::zip(std::move(inputs)); });
  m.def("concat_datasets", [](std::vector<Dataset> inputs) { return data::concat(std::move(inputs)); });
}

}  // namespace

void init_datasets(nb::module_& m) {
  // Data sets are also created by threads that execute no Python code.
  data::set_line_provider([] {
    const SourceLine line = Py_IsInitialized() != 0 && PyGILState_Check() == 1 ? user_line() : SourceLine();
    return line.line() == 0 ? std::string() : print(line);
  });
  nb::class_<WorkerPool>(m, "WorkerPool", "The worker processes of a stage.")
      .def(
          "__init__",
          [](WorkerPool* self, nb::object setup, int processes, bool restart, std::string stage) {
            new (self) WorkerPool(hold(std::move(setup)), {processes, restart, std::move(stage)});
          },
          "setup"_a, "processes"_a, "restart"_a, "stage"_a)
      .def("text", &WorkerPool::text);
  m.def("in_stage", &data::in_stage);
  m.attr("automatic") = data::automatic;  // a number of lanes or slots
  m.def("dtype_names", [] {               // NumPy's names by number, as in messages to worker processes
    std::vector<std::string> names;
    for (DType dtype : tensor::all_dtypes) names.emplace_back(numpy_name(dtype));
    return names;
  });
  nb::class_<Dataset> dataset(m, "Dataset", "The description of a stream of elements.");
  init_stages(dataset);
  init_sources(m);
  m.def("set_skip_object", &set_skip_object);
  m.def(
      "count_skipped",
      [](const std::string& function, std::int64_t count, std::string first_error, nb::object report) {
        const data::SkipReport reports = skip_report(std::move(report));
        GilRelease without_gil;
        data::count_skipped(function, {count, std::move(first_error)}, reports);
      },
      "function"_a, "count"_a, "first_error"_a, "report"_a);
  nb::class_<OwnedIterator>(m, "DataIterator", "The elements of a data set, produced ahead of the loop.")
      .def(
          "__init__",
          [](OwnedIterator* self, const World& world, const Dataset& set, int slots, bool compare, bool pad) {
            GilRelease without_gil;
            new (self) OwnedIterator(world.iterate(set, {slots, compare, pad ? UnevenEnd::pad : UnevenEnd::stop}));
          },
          "world"_a, "dataset"_a, "slots"_a, "compare"_a, "pad"_a)
      .def(
          "next",
          [](OwnedIterator& self, bool as_numpy) -> nb::object {
            std::optional<Element> element;
            {
              GilRelease without_gil;
              const auto lock = self.lock();
              element = as_numpy ? self.iterator->next() : self.iterator->next_partial();
            }
            if (!element) return nb::none();
            // A tuple of one item, since an element may be None.
            return nb::make_tuple(as_numpy ? python_of(*element) : tensors_of(*element));
          },
          "as_numpy"_a = false)
      .def(
          "start",
          [](OwnedIterator& self, std::int64_t epoch) {
            const auto lock = self.lock();
            self.iterator->start(epoch);
          },
          "epoch"_a, nb::call_guard<GilRelease>())
      .def(
          "state",
          [](OwnedIterator& self) {
            const auto lock = self.lock();
            return self.iterator->state();
          },
          nb::call_guard<GilRelease>())
      .def(
          "common_state",
          [](OwnedIterator& self) {
            const auto lock = self.lock();
            return self.iterator->common_state();
          },
          nb::call_guard<GilRelease>())
      .def(
          "explain",
          [](OwnedIterator& self) {
            const auto lock = self.lock();
            return self.iterator->explain();
          },
          nb::call_guard<GilRelease>())
      .def(
          "restore",
          [](OwnedIterator& self, const std::string& text) {
            const auto lock = self.lock();
            self.iterator->restore(text);
          },
          "state"_a, nb::call_guard<GilRelease>())
      .def_prop_ro("epoch", [](const OwnedIterator& self) { return self.iterator->epoch(); })
      .def(
          "close", [](OwnedIterator& self, bool wait) { self.iterator->close(wait); }, "wait"_a,
          nb::call_guard<GilRelease>());
}

}  // namespace karez::python
