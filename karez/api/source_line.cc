// Formats source lines.
#include "karez/api/source_line.h"

#include <string_view>

#include "karez/api/namespace.h"
#include "karez/base/error.h"

namespace karez {

std::string print(const SourceLine& line) {
  std::string_view file = line.file_name();
  return cat(file.substr(file.find_last_of('/') + 1), ":", line.line());
}

}  // namespace karez
