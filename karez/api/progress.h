// Progress: reports step, loss, samples per second and time left. On a terminal one line is rewritten; in any other
// output a new line is written from time to time.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace karez {

// A line that reports the progress of a loop.
class Progress {
 public:
  // `samples` is the number of samples per step. On a terminal the line is rewritten at most ten times a second;
  // otherwise about twenty lines are written. By default, `terminal` says whether `out` is a terminal.
  Progress(std::int64_t steps, std::int64_t samples, std::FILE* out = stdout);
  Progress(std::int64_t steps, std::int64_t samples, std::FILE* out, bool terminal);

  // Call after each step; steps count from 1.
  void show(std::int64_t step, std::int64_t epoch, double loss);
  void finish();  // ends the line

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t steps_, samples_;
  std::FILE* out_;
  bool terminal_;
  Clock::time_point begin_, shown_;
  std::int64_t first_ = 0;  // the step at `begin_`: the first call compiles and is not counted
  std::size_t width_ = 0;   // of the latest line
};

// "step 938/2814  epoch 2  loss 0.3141  12345 samples/s  ETA 0:42"
std::string progress_line(std::int64_t step, std::int64_t steps, std::int64_t epoch, double loss,
                          double samples_per_second, double seconds_left);

}  // namespace karez
