// Names and exit codes of the error kinds.
#include "karez/base/error.h"

#include <utility>

namespace karez::base {

Error::Error(const std::string& text) : Error(ErrorKind::user, text) {}
Error::Error(ErrorKind kind, const std::string& text, std::string where)
    : std::runtime_error(text),
      kind(kind),
      where(std::move(where)) {}
Error::Error(const Error&) = default;
Error& Error::operator=(const Error&) = default;
Error::~Error() = default;

std::string_view name_of(ErrorKind kind) {
  constexpr std::string_view names[] = {"user", "shape", "type", "layout", "name", "device", "peer", "hang", "data"};
  return names[static_cast<std::size_t>(kind)];
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user:
    case ErrorKind::shape:
    case ErrorKind::type:
    case ErrorKind::layout:
    case ErrorKind::name:
    case ErrorKind::device: return 64;
    case ErrorKind::peer: return 75;
    case ErrorKind::hang: return 76;
    case ErrorKind::data: return 77;
  }
  return 64;
}

void fail_parts(ErrorKind kind, std::initializer_list<TextPart> parts) { throw Error(kind, cat_parts(parts)); }

}  // namespace karez::base
