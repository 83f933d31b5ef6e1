// Implements Progress: formats the line, and decides at which steps it is written.
#include "karez/api/progress.h"
#include "karez/api/namespace.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "karez/base/text.h"

namespace karez {
namespace {

// Returns the number of steps between two lines if the output is not a terminal. It is chosen such that about twenty
// lines are written. The last step always writes a line.
std::int64_t line_interval(std::int64_t steps) { return std::max<std::int64_t>(1, steps / 20); }

}  // namespace

std::string progress_line(std::int64_t step, std::int64_t steps, std::int64_t epoch, double loss,
                          double samples_per_second, double seconds_left) {
  char text[160];
  auto seconds = static_cast<long long>(std::llround(std::max(0.0, seconds_left)));
  std::snprintf(text, sizeof text, "step %lld/%lld  epoch %lld  loss %.4f  %.0f samples/s  ETA %lld:%02lld",
                static_cast<long long>(step), static_cast<long long>(steps), static_cast<long long>(epoch), loss,
                samples_per_second, seconds / 60, seconds % 60);
  return text;
}

Progress::Progress(std::int64_t steps, std::int64_t samples, std::FILE* out)
    : Progress(steps, samples, out, isatty(fileno(out)) == 1) {}
Progress::Progress(std::int64_t steps, std::int64_t samples, std::FILE* out, bool terminal)
    : steps_(steps),
      samples_(samples),
      out_(out),
      terminal_(terminal),
      begin_(Clock::now()),
      shown_(begin_) {}

void Progress::show(std::int64_t step, std::int64_t epoch, double loss) {
  auto now = Clock::now();
  if (first_ == 0) {
    first_ = step;
    begin_ = now;
  }
  bool is_due =
      step == steps_ || (terminal_ ? now - shown_ > std::chrono::milliseconds(100) : step % line_interval(steps_) == 0);
  if (!is_due) return;
  shown_ = now;
  double seconds = std::chrono::duration<double>(now - begin_).count();
  double rate = seconds > 0 ? static_cast<double>((step - first_) * samples_) / seconds : 0;
  double seconds_left = rate > 0 ? static_cast<double>((steps_ - step) * samples_) / rate : 0;
  std::string line = progress_line(step, steps_, epoch, loss, rate, seconds_left);
  std::size_t width = line.size();
  if (terminal_ && width < width_) line.append(width_ - width, ' ');  // overwrites the rest of a longer line
  width_ = width;
  std::fprintf(out_, terminal_ ? "\r%s" : "%s\n", line.c_str());
  std::fflush(out_);
}

void Progress::finish() {
  if (terminal_ && width_ > 0) std::fputc('\n', out_);
  width_ = 0;
}

}  // namespace karez
