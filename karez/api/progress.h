// A progress line: step, loss, samples per second and time left; on a terminal one line that is rewritten, otherwise a
// new line from time to time.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace karez {

// A line that reports the progress of a loop.
class Progress {
 public:
  // `samples` per step. On a terminal the line is rewritten at most ten times a second; otherwise twenty lines are
  // written in all.
  Progress(std::int64_t steps, std::int64_t samples, std::FILE* out = stdout);
  Progress(std::int64_t steps, std::int64_t samples, std::FILE* out, bool terminal);

  // After step `step` of 1 .. steps, of `epoch`.
  void show(std::int64_t step, std::int64_t epoch, double loss);
  void finish();  // ends the line

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t steps_, samples_;
  std::FILE* out_;
  bool terminal_;
  Clock::time_point begin_, shown_;
  std::int64_t first_ = 0;  // step at `begin_`: the first call compiles and is not counted
  std::size_t width_ = 0;
};

// "step 938/2814  epoch 2  loss 0.3141  12345 samples/s  ETA 0:42"
std::string progress_line(std::int64_t step, std::int64_t steps, std::int64_t epoch, double loss,
                          double samples_a_second, double seconds_left);

}  // namespace karez
