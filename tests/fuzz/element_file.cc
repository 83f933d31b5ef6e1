// Fuzzes the readers of files of elements and of their records with arbitrary bytes. A reader must reject them with an
// Error, or the elements must be written again as the same bytes.
#include "karez/data/stages/element_file.h"

#include <sys/mman.h>

#include "karez/base/error.h"
#include "karez/data/stages/element_record.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {

// Objects are strings.
ObjectCodec strings() {
  return {[](const Object& object) { return *static_cast<const std::string*>(object.get()); },
          [](std::string_view bytes) -> Object { return std::make_shared<const std::string>(bytes); }};
}

std::shared_ptr<const OpenFile> file_of(std::string_view bytes) {
  auto file = std::make_shared<const OpenFile>(::memfd_create("fuzz", MFD_CLOEXEC), "a file");
  file->write_at(0, std::as_bytes(std::span(bytes)));
  return file;
}

void check_file(std::string_view bytes) {
  const ElementFile file(file_of(bytes), strings());
  const std::shared_ptr<const OpenFile> copy = file_of("");
  ElementWriter writer(copy, file.description(), strings());
  for (std::int64_t i = 0; i < file.size(); ++i) writer.add(file.read(i));
  writer.finish();
  check_invariant(copy->size() == static_cast<std::int64_t>(bytes.size()) && copy->read_text(0, copy->size()) == bytes,
                  "the elements of a file are written as other bytes");
}

}  // namespace

void fuzz_element_file(std::string_view bytes) {
  try {
    check_file(bytes);
  } catch (const Error&) {}
  try {
    ArrayPool pool;
    check_invariant(record_of(element_of(bytes, strings(), pool), strings()) == bytes,
                    "the element of a record is written as other bytes");
  } catch (const Error&) {}
}

}  // namespace karez::tests
