// Chooses how many cores kernels leave to the stages of data sets while a program reads them, from the number of
// elements that it reads per second. Without a clock: the caller measures.
#pragma once

#include <map>
#include <string>

#include "karez/data/namespace.h"

namespace karez::data {

// It measures without own cores first. If the stages use at least a tenth of a core, it tries as many cores as they
// have used, then more if the stages use all of them, or fewer, as long as more elements are read, and keeps the best
// number until the stages use clearly more or fewer cores. All times are in seconds.
class DataCoreTuner {
 public:
  // Kernels use at least one of the cores of the process.
  explicit DataCoreTuner(int cores) : cores_(cores) {}

  // The program has read an element. `computing`: the sum of the times for which stages have used cores until now.
  void note_read(double now, double computing);
  // Call if something other than the steps of the program took time, and when plans leave `data_cores()` cores.
  void restart() { reads_ = -1; }

  int data_cores() const { return at_; }
  bool is_settled() const { return settled_; }  // no other number is being tried
  // "data_cores 1 of 2, chosen automatically: 251.3 elements per second, with 0 189.2".
  std::string text() const;

 private:
  void measured(double rate, double load);
  void choose_next(double load);
  void watch(double load, double seconds);
  void settle(double load);

  const int cores_;
  int at_ = 0, previous_ = 0, best_ = 0;
  bool settled_ = false;
  std::map<int, double> rates_;  // elements per second, by number of cores
  // The measurement: it begins after the first reads, which may be slower.
  int reads_ = -1;  // -1: no read yet
  bool measuring_ = false;
  double first_ = 0, last_ = 0, begin_ = 0, computing_ = 0;
  // Of the settled state.
  double settled_load_ = 0;  // in cores
  double quiet_ = 0;         // seconds since then
  double patience_ = 15;     // seconds for which no other load is noticed
  int other_loads_ = 0;      // measurements with another load, one after another
};

}  // namespace karez::data
