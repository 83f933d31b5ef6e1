// Measures numbers of cores one after another.
#include "karez/data/tuning/data_core_tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "karez/base/text.h"

namespace karez::data {
namespace {

constexpr double first_settle = 2;      // seconds after which the numbers of stages hardly change
constexpr double settle_seconds = 0.5;  // after a change of the number of cores
constexpr double window = 1;            // seconds of a measurement
constexpr int settle_reads = 8, window_reads = 24;
constexpr double least_load = 0.1;  // cores that stages use; for less, a core of their own does not pay
constexpr double better = 1.02;     // so many times as many elements
constexpr double longest_patience = 600;

std::string one_digit(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

}  // namespace

void DataCoreTuner::note_read(double now, double computing) {
  if (cores_ <= 1) return;
  const double mean = reads_ > 4 ? (last_ - first_) / reads_ : 0;
  // The program did something else, such as an evaluation.
  if (reads_ > 4 && now - last_ > 8 * mean + 0.1) reads_ = -1;
  if (reads_ < 0) {
    reads_ = 0, measuring_ = false, first_ = last_ = now;
    return;
  }
  ++reads_;
  last_ = std::max(last_, now);
  if (!measuring_) {
    if (reads_ < settle_reads || last_ - first_ < (rates_.empty() ? first_settle : settle_seconds)) return;
    measuring_ = true, reads_ = 0, first_ = begin_ = last_, computing_ = computing;
    return;
  }
  const double seconds = last_ - begin_;
  if (reads_ < window_reads || seconds < window) return;
  const double rate = reads_ / seconds, load = std::max(0.0, (computing - computing_) / seconds);
  reads_ = 0, first_ = begin_ = last_, computing_ = computing;
  if (settled_) watch(load, seconds);
  else measured(rate, load);
}

void DataCoreTuner::measured(double rate, double load) {
  rates_[at_] = rate;
  if (at_ != best_ && rate > better * rates_[best_]) best_ = at_;
  choose_next(load);
}

void DataCoreTuner::choose_next(double load) {
  int next = at_;
  if (rates_.size() == 1) {
    if (load < least_load) return settle(load);
    next = std::clamp(static_cast<int>(std::lround(load)), 1, cores_ - 1);
  } else {
    const bool is_worse = rates_.size() > 2 && rates_[at_] <= rates_[previous_];
    next = load > 0.9 * at_ ? at_ + 1 : at_ - 1;
    if (is_worse || (next < at_ && best_ != at_)) return settle(load);
    if (next < 1 || next >= cores_ || rates_.count(next) > 0) return settle(load);
  }
  previous_ = at_, at_ = next;
  restart();
}

void DataCoreTuner::settle(double load) {
  settled_ = true, settled_load_ = load, quiet_ = 0, other_loads_ = 0;
  if (at_ == best_) return;
  at_ = best_, settled_load_ = -1;  // the first measurement of the next window
  restart();
}

void DataCoreTuner::watch(double load, double seconds) {
  quiet_ += seconds;
  if (settled_load_ < 0) {
    settled_load_ = load;
    return;
  }
  const double less = std::min(load, settled_load_), more = std::max(load, settled_load_);
  other_loads_ = more > 1.5 * less && more > 2 * least_load ? other_loads_ + 1 : 0;
  if (other_loads_ < 2 || quiet_ < patience_) return;
  patience_ = std::min(2 * patience_, longest_patience);
  settled_ = false, at_ = best_ = 0, other_loads_ = 0;
  rates_.clear();
  restart();
}

std::string DataCoreTuner::text() const {
  std::string out = cat("data_cores ", at_, " of ", cores_, ", chosen automatically: ");
  if (cores_ <= 1) return out + "kernels need one core";
  if (rates_.empty()) return out + "not measured yet";
  const auto number = [&](int cores) { return one_digit(rates_.at(cores)); };
  std::vector<std::string> others;
  for (const auto& [cores, rate] : rates_)
    if (cores != at_) others.push_back(cat("with ", cores, " ", number(cores)));
  out += rates_.count(at_) > 0 ? cat(number(at_), " elements per second") : "being measured";
  if (settled_ && rates_.size() == 1) return out + ", and the stages use less than a tenth of a core";
  return others.empty() ? out : cat(out, ", ", join(others, ", "));
}

}  // namespace karez::data
