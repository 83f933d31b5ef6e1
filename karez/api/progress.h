// A progress line: step, loss, samples a second and time left; on a terminal one line that is rewritten, elsewhere a
// line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace karez {

// A line on standard error that tells how far a loop is.
class Progress {
 public:
  // `samples` a step. On a terminal the line is rewritten at most ten times a second; elsewhere twenty lines are
  // written in all.
  Progress(std::int64_t steps, std::int64_t samples, std::FILE* out = stdout);
  Progress(std::int64_t steps, std::int64_t samples, std::FILE* out, bool terminal);

  // After step `step` of 1 .. steps, of `epoch`.
  void show(std::int64_t step, std::int64_t epoch, double loss);
  void finish();  // leaves the line as it stands

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t steps_, samples_;
  std::FILE* out_;
  bool terminal_;
  Clock::time_point begin_, shown_;
  std::int64_t first_ = 0;  // step at `begin_`: the first call compiles, and is not counted
  std::size_t width_ = 0;
};

// "step 938/2814  epoch 2  loss 0.3141  12345 samples/s  ETA 0:42"
std::string progress_line(std::int64_t step, std::int64_t steps, std::int64_t epoch, double loss,
                          double samples_a_second, double seconds_left);

}  // namespace karez
