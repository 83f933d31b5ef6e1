// Log lines on standard error.
#include "karez/base/log.h"

#include <cstdio>
#include <cstdlib>

namespace karez::base {

bool log_enabled(LogLevel level) {
  static const int lowest = [] {  // read once, since the environment does not change
    const char* text = std::getenv("KAREZ_LOG");
    std::string_view name = text == nullptr ? "warning" : text;
    return name == "debug" ? 0 : name == "info" ? 1 : 2;
  }();
  return static_cast<int>(level) >= lowest;
}

void log_line(LogLevel level, std::string_view line) {
  constexpr const char* names[] = {"debug", "info", "warning"};
  std::fprintf(stderr, "karez %s: %.*s\n", names[static_cast<int>(level)], static_cast<int>(line.size()), line.data());
}

}  // namespace karez::base
