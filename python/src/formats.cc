// Bindings of data sets of the records of files.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "karez/karez.h"
#include "python/src/bindings.h"
#include "python/src/elements.h"
#include "python/src/gil_release.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;
using data::Dataset;
using data::Element;
using data::FileOptions;

nb::object path_object(const std::string& path) {
  nb::object text = nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), std::ssize(path)));
  if (!text.is_valid()) nb::raise_python_error();
  return text;
}

// Calls f; an OSError of Python, such as of a missing file, becomes an error of the kind `data`, so that it can be
// skipped. Needs the interpreter's lock.
template <class F> auto with_data_errors(const std::string& path, F&& f) {
  std::string message;
  try {
    return f();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_OSError)) throw;
    message = nb::cast<std::string>(nb::str(error.value()));
  }
  base::fail(ErrorKind::data, "cannot read ", path, ": ", message);
}

// The bytes of a file object of Python, which `open(path, offset)` returns.
class PythonFile : public data::ByteStream {
 public:
  PythonFile(const data::Object& open, std::string path, std::int64_t offset) : path_(std::move(path)) {
    file_ = with_gil([&] {
      return with_data_errors(path_, [&] { return hold(nb::borrow(handle_of(open))(path_object(path_), offset)); });
    });
  }
  ~PythonFile() override {
    if (Py_IsInitialized() == 0 || is_finalizing_elsewhere()) return;
    with_gil([&] {
      try {
        nb::borrow(handle_of(file_)).attr("close")();
      } catch (nb::python_error& error) { error.discard_as_unraisable("close"); }
    });
  }
  std::size_t read(std::span<std::uint8_t> bytes) override {
    return with_gil([&] {
      return with_data_errors(path_, [&] {
        const std::size_t most = std::min<std::size_t>(bytes.size(), 1 << 20);
        const auto got = nb::cast<nb::bytes>(nb::borrow(handle_of(file_)).attr("read")(most));
        require(ErrorKind::data, got.size() <= most, path_, ": read(", most, ") returned ", got.size(), " bytes");
        if (got.size() > 0) std::memcpy(bytes.data(), got.c_str(), got.size());
        return got.size();
      });
    });
  }

 private:
  std::string path_;
  data::Object file_;
};

// How the options of all formats arrive from Python.
using Options = std::tuple<bool, std::int64_t, std::int64_t, nb::object, nb::object>;

FileOptions options_from(Options options) {
  auto& [skip, max_record_bytes, max_file_bytes, report, open] = options;
  FileOptions out;
  out.on_error = skip ? data::OnError::skip : data::OnError::raise;
  out.max_record_bytes = max_record_bytes, out.max_file_bytes = max_file_bytes;
  out.report = skip_report(std::move(report));
  if (!open.is_none()) {
    out.open = [f = hold(std::move(open))](const std::string& path, std::int64_t offset) {
      return std::make_unique<PythonFile>(f, path, offset);
    };
  }
  return out;
}

std::vector<std::string> paths_from(const std::vector<nb::bytes>& paths) {
  std::vector<std::string> out;
  for (const nb::bytes& path : paths) out.emplace_back(path.c_str(), path.size());
  return out;
}

enum class FieldKind { array, text, bytes };

// Makes str or bytes objects of some of the arrays of an element. Needs the interpreter's lock.
void make_objects(Element& element, const std::function<FieldKind(std::size_t, const HostArray&)>& kind_of) {
  for (std::size_t i = 0; i < element.fields.size(); ++i) {
    const HostArray& array = data::array_of(element, i);
    const FieldKind kind = kind_of(i, array);
    if (kind == FieldKind::array) continue;
    const auto* chars = reinterpret_cast<const char*>(array.bytes());
    nb::object object = nb::steal(kind == FieldKind::text ? PyUnicode_DecodeUTF8(chars, array.count(), nullptr)
                                                          : PyBytes_FromStringAndSize(chars, array.count()));
    if (!object.is_valid()) nb::raise_python_error();
    element.fields[i] = hold(std::move(object));
  }
}
std::function<Element(Element)> with_objects(std::function<FieldKind(std::size_t, const HostArray&)> kind_of) {
  return [kind_of = std::move(kind_of)](Element element) {
    with_gil([&] { make_objects(element, kind_of); });
    return element;
  };
}
FieldKind bytes_of_lists(std::size_t, const HostArray& array) {
  return array.dtype() == DType::u8 ? FieldKind::bytes : FieldKind::array;
}

// Makes the object that json.loads would return.
class JsonBuilder {
 public:
  void add(const data::JsonToken& token) {
    using Kind = data::JsonToken::Kind;
    switch (token.kind) {
      case Kind::null: put(nb::none()); break;
      case Kind::boolean: put(nb::cast(token.boolean)); break;
      case Kind::integer: put(nb::cast(token.integer)); break;
      case Kind::unsigned_integer: put(nb::cast(token.unsigned_integer)); break;
      case Kind::number: put(nb::cast(token.number)); break;
      case Kind::text: put(nb::str(token.text.data(), token.text.size())); break;
      case Kind::key: open_.back().key = nb::str(token.text.data(), token.text.size()); break;
      case Kind::list: begin(nb::list()); break;
      case Kind::dict: begin(nb::dict()); break;
      case Kind::list_end:
      case Kind::dict_end: open_.pop_back(); break;
    }
  }
  nb::object result() { return std::move(result_); }

 private:
  struct Open {
    nb::object container, key;
  };
  void put(nb::object value) {
    if (open_.empty()) result_ = std::move(value);
    else if (PyList_Check(open_.back().container.ptr())) nb::borrow<nb::list>(open_.back().container).append(value);
    else open_.back().container[open_.back().key] = value;
  }
  void begin(nb::object container) {
    put(container);
    open_.push_back({std::move(container), {}});
  }
  std::vector<Open> open_;
  nb::object result_;
};

Element json_object(const data::JsonDocument& document) {
  return with_gil([&] {
    JsonBuilder builder;
    document([&](const data::JsonToken& token) { builder.add(token); });
    return opaque_element(builder.result());
  });
}

using Column = std::tuple<std::string, std::optional<DType>, std::optional<double>>;

}  // namespace

void init_formats(nb::module_& m) {
  m.def("is_dtype", [](nb::handle object) {
    try {
      dtype_of_object(object);
      return true;
    } catch (...) { return PyErr_Clear(), false; }
  });
  m.def("text_dataset", [](const std::vector<nb::bytes>& paths, Options options) {
    FileOptions files = options_from(std::move(options));
    files.convert = with_objects([](std::size_t, const HostArray&) { return FieldKind::text; });
    return data::from_text(paths_from(paths), files);
  });
  m.def("tfrecord_dataset", [](const std::vector<nb::bytes>& paths, bool examples, Options options) {
    FileOptions files = options_from(std::move(options));
    files.convert = with_objects(bytes_of_lists);
    return data::from_tfrecord(paths_from(paths), {examples}, files);
  });
  m.def("parse_example", [](const nb::bytes& bytes) {
    Element element = data::parse_example({reinterpret_cast<const std::uint8_t*>(bytes.c_str()), bytes.size()});
    make_objects(element, bytes_of_lists);
    return python_of(element);
  });
  m.def("webdataset_dataset", [](const std::vector<nb::bytes>& paths, Options options) {
    FileOptions files = options_from(std::move(options));
    files.convert = with_objects(
        [](std::size_t field, const HostArray&) { return field == 0 ? FieldKind::text : FieldKind::bytes; });
    return data::from_webdataset(paths_from(paths), files);
  });
  m.def("jsonl_dataset", [](const std::vector<nb::bytes>& paths, const std::vector<Column>& fields, Options options) {
    FileOptions files = options_from(std::move(options));
    data::JsonlOptions format;
    std::vector<FieldKind> kinds;
    for (const auto& [name, dtype, missing] : fields) {
      format.fields.push_back({name, dtype});
      kinds.push_back(dtype ? FieldKind::array : FieldKind::text);
    }
    if (fields.empty()) format.make = json_object;
    else files.convert = with_objects([kinds](std::size_t field, const HostArray&) { return kinds[field]; });
    return data::from_jsonl(paths_from(paths), format, files);
  });
  m.def("csv_dataset", [](const std::vector<nb::bytes>& paths, const std::string& delimiter, bool header,
                          const std::vector<std::string>& names, const std::vector<Column>& columns, Options options) {
    base::require(delimiter.size() == 1, "from_csv: the delimiter must be one ASCII character, got '", delimiter, "'");
    FileOptions files = options_from(std::move(options));
    data::CsvOptions format = {delimiter[0], header, names, {}};
    std::vector<FieldKind> kinds;
    for (const auto& [name, dtype, missing] : columns) {
      format.columns.push_back({name, dtype, missing});
      kinds.push_back(dtype ? FieldKind::array : FieldKind::text);
    }
    files.convert = with_objects(
        [kinds](std::size_t field, const HostArray&) { return kinds.empty() ? FieldKind::text : kinds[field]; });
    return data::from_csv(paths_from(paths), format, files);
  });
  m.def("npy_dataset", [](const std::vector<nb::bytes>& paths, Options options) {
    return data::from_npy(paths_from(paths), options_from(std::move(options)));
  });
  m.def("npz_dataset", [](const std::vector<nb::bytes>& paths, Options options) {
    return data::from_npz(paths_from(paths), options_from(std::move(options)));
  });
}

}  // namespace karez::python
