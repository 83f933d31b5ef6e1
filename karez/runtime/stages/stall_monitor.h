// Finds out whether devices wait for the elements of a data set again and again.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A stall is the time in which the session had no launch and the program waited for an element. It counts only in a
// program that makes launches: if one was made since the program read the eighth element before. Times are ticks.
class StallMonitor {
 public:
  // `least`: stalls that are shorter in total are not reported.
  explicit StallMonitor(std::int64_t least) : least_(least) {}

  enum class Event : std::uint8_t {
    none,
    began,  // a window of reads begins, in which stalls are counted
    // In at least two reads since the window began, devices waited for at least a quarter of the time, and a launch was
    // made.
    limited,
  };
  // A read has ended: at `now`, after a stall of this length, when the session had made this many launches.
  Event add(std::int64_t now, std::int64_t stall, std::int64_t launches) {
    std::int64_t& old_launches = launches_[static_cast<std::size_t>(reads_) % launches_.size()];
    if (reads_++ == 0) {
      first_ = last_ = now;
      launches_.fill(launches);
      return Event::none;
    }
    const std::int64_t elapsed = now - last_;
    last_ = now;
    counted_ = old_launches == launches ? 0 : stall;
    old_launches = launches;
    total_ += counted_;
    if (counted_ * 20 <= elapsed) {
      ++calm_reads_;
      return Event::none;
    }
    return add_stall(launches);
  }

  std::int64_t reads() const { return reads_; }
  std::int64_t counted() const { return counted_; }  // the stall of the last read
  std::int64_t total() const { return total_; }      // since the first read ended
  std::int64_t since_first(std::int64_t now) const { return reads_ == 0 ? 0 : now - first_; }
  // The part of the time since the window began in which devices waited, when the last event was `limited`.
  double share() const { return share_; }
  bool recovered() const { return calm_reads_ >= calm; }  // the last reads were without stalls

 private:
  static constexpr std::int64_t window = 8, calm = 16;  // reads

  Event add_stall(std::int64_t launches) {
    calm_reads_ = 0;
    if (window_stalls_ < 0 || reads_ - window_read_ > window) {
      window_stalls_ = window_stall_ = 0;
      window_read_ = reads_, window_begin_ = last_, window_launches_ = launches;
      return Event::began;
    }
    window_stall_ += counted_, ++window_stalls_;
    const std::int64_t elapsed = last_ - window_begin_;
    if (window_stalls_ < 2 || window_stall_ < least_ || window_stall_ * 4 < elapsed || window_launches_ == launches)
      return Event::none;
    share_ = static_cast<double>(window_stall_) / static_cast<double>(elapsed);
    window_stalls_ = -1;
    return Event::limited;
  }

  std::int64_t least_;
  std::int64_t reads_ = 0, first_ = 0, last_ = 0;
  std::array<std::int64_t, 8> launches_ = {};  // made before the last reads
  std::int64_t total_ = 0, counted_ = 0;
  std::int64_t calm_reads_ = 0;
  std::int64_t window_read_ = 0, window_begin_ = 0, window_stall_ = 0, window_launches_ = 0;
  std::int64_t window_stalls_ = -1;  // reads with stalls in the window; -1: there is no window
  double share_ = 0;
};

// The stalls of all streams of a world since the last launch that reads arrays of the host. Any thread may call the
// functions.
class StallsOfLaunch {
 public:
  void add(std::int64_t stall) {
    std::int64_t before = ticks_.load(std::memory_order_relaxed);
    while (!ticks_.compare_exchange_weak(before, std::max<std::int64_t>(before, 0) + stall)) continue;
  }
  // Nothing if no element was read since the last call.
  std::optional<std::int64_t> take() {
    const std::int64_t ticks = ticks_.exchange(-1);
    return ticks < 0 ? std::nullopt : std::optional(ticks);
  }

 private:
  std::atomic<std::int64_t> ticks_{-1};  // -1: no element was read
};

}  // namespace karez::runtime
