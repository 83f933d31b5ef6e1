// Log lines on standard error, each with its level; KAREZ_LOG (default: warning) names the lowest level that is shown.
#pragma once

#include <string_view>

#include "karez/base/text.h"

namespace karez::base {

enum class LogLevel { debug, info, warning };

bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <class... Parts> void note(LogLevel level, const Parts&... parts) {
  if (log_enabled(level)) log_line(level, cat(parts...));
}

}  // namespace karez::base
