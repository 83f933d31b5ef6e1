// Finds the line of the user's program that errors name. Each op asks for it, so lines are found once.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <array>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "python/src/bindings.h"
#include "python/src/errors.h"

namespace karez::python {
namespace {

std::string package;  // the folder of the package, by which its frames are recognised; written once

bool is_package_frame(PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* file = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (file == nullptr) return PyErr_Clear(), false;
  return std::string_view(file, static_cast<std::size_t>(size)).starts_with(package);
}

// A frame knows its instruction. To find the line of an instruction, Python reads the table of lines of the function or
// file from its start, which takes microseconds in a long one.
struct KnownLine {
  PyCodeObject* code = nullptr;  // owned
  int instruction = -1;
  SourceLine line;
};

SourceLine line_of_frame(PyFrameObject* frame, PyCodeObject* code) {
  const auto find = [&] {
    return line_of(PyUnicode_AsUTF8(code->co_filename), static_cast<unsigned>(PyFrame_GetLineNumber(frame)));
  };
#if PY_VERSION_HEX >= 0x030B0000
  static std::array<KnownLine, 512> known_lines;  // guarded by the interpreter's lock
  const int instruction = PyFrame_GetLasti(frame);
  const std::size_t hash = (reinterpret_cast<std::uintptr_t>(code) >> 4) * 31 + static_cast<std::size_t>(instruction);
  KnownLine& known = known_lines[hash % known_lines.size()];
  if (known.code == code && known.instruction == instruction) return known.line;
  const SourceLine line = find();
  PyCodeObject* const old = known.code;
  Py_INCREF(code);
  known = {code, instruction, line};
  Py_XDECREF(old);
  return line;
#else
  return find();
#endif
}

}  // namespace

SourceLine line_of(std::string_view file, unsigned line) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> files;  // one for each file of the program
  std::lock_guard lock(mutex);
  auto known = files.find(file);
  if (known == files.end()) known = files.emplace(file).first;
  return {known->c_str(), line};
}

SourceLine user_line() {
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && frame.ptr() != nullptr) {
    auto* at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    nb::object code_object = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    auto* code = reinterpret_cast<PyCodeObject*>(code_object.ptr());
    if (!is_package_frame(code)) return line_of_frame(at, code);
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return {"python", 0};
}

void init_user_line(nb::module_& m) {
  const std::string file = nb::cast<std::string>(nb::module_::import_("karez.errors").attr("__file__"));
  package = file.substr(0, file.find_last_of('/') + 1);
  m.def("user_line", [] {
    const SourceLine line = user_line();
    return std::pair(line.file_name(), line.line());
  });
}

}  // namespace karez::python
