// SlowCompilation: reports a compilation that takes long.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace karez {

// Prints one line if a compilation takes more than two seconds, so that a program that waits for it says what it does.
// The line appears during the compilation if `check` is called often enough, and otherwise at its end.
class SlowCompilation {
 public:
  // `what` describes the program: "function 'step' (net.cc:12)". `now` returns the time in seconds.
  explicit SlowCompilation(std::string what, std::function<double()> now = steady_seconds);
  ~SlowCompilation() { check(); }
  SlowCompilation(const SlowCompilation&) = delete;
  SlowCompilation& operator=(const SlowCompilation&) = delete;

  void set_nodes(std::size_t nodes) { nodes_ = nodes; }  // of the program, once they are known
  void check();

 private:
  static double steady_seconds();
  std::string what_;
  std::function<double()> now_;
  double begin_;
  std::size_t nodes_ = 0;
  bool reported_ = false;
};

}  // namespace karez
