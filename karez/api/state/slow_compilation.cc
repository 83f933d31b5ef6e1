// Implements SlowCompilation.
#include "karez/api/state/slow_compilation.h"

#include <chrono>
#include <utility>

#include "karez/base/log.h"

namespace karez {
namespace {

constexpr int max_seconds = 2;

}  // namespace

SlowCompilation::SlowCompilation(std::string what, std::function<double()> now)
    : what_(std::move(what)),
      now_(std::move(now)),
      begin_(now_()) {}

double SlowCompilation::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void SlowCompilation::check() {
  if (reported_ || now_() - begin_ <= max_seconds) return;
  reported_ = true;
  base::note(base::LogLevel::warning, "compiling ", what_, nodes_ == 0 ? "" : base::cat(" of ", nodes_, " nodes"),
             " takes more than ", max_seconds, " s; later calls use the same plan");
}

}  // namespace karez
