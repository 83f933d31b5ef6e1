// Write scheduler: decides which frames a connection writes next, and which thread writes them.
//
// The thread that sends or posts writes to the wire itself if no other thread is writing and there is little to write.
// Otherwise the writing role is left to the reactor's thread or to a thread that polls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/channel_table.h"
#include "karez/comm/transport/wire.h"

namespace karez::comm {

class WriteScheduler {
 public:
  // `on_deferred` is called with the lock held when frames are left to the reactor's thread or to a polling thread.
  WriteScheduler(ChannelTable& channels, Wire& wire, std::function<void()> on_deferred);
  ~WriteScheduler();
  WriteScheduler(const WriteScheduler&) = delete;
  WriteScheduler& operator=(const WriteScheduler&) = delete;

  // Call these with the lock held.
  void queue(Channel& channel);             // the channel has something to write
  void queue_for_reader(Channel& channel);  // the same, for the reading thread, which will call `resume`
  bool is_deferred() const { return deferred_; }
  bool is_idle() const { return !writing_ || deferred_; }  // no thread is in a call of the wire

  // Both write queued frames. They return false if the wire has ended; the caller must then read it to its end.
  // For a thread that sends or posts, which passes its lock; if another thread is writing, that thread continues.
  [[nodiscard]] bool write_now(std::unique_lock<std::mutex>& lock);
  // For the reactor's thread or a polling thread: writes frames that were deferred.
  [[nodiscard]] bool resume(int batches, std::int64_t max_bytes);

  static constexpr std::int64_t max_inline = 64 << 10;  // maximum bytes that a sending thread writes itself

 private:
  struct Batch;

  bool write(int batches, std::int64_t max_bytes);
  void fill_batch(std::int64_t max_bytes);
  void account_batch();
  void defer();
  bool end_writing();

  ChannelTable& channels_;
  Wire& wire_;
  std::function<void()> on_deferred_;
  Channel *first_ = nullptr, *last_ = nullptr;  // queue of channels with something to write
  bool writing_ = false;                        // the writing role is taken, possibly for a later call
  bool deferred_ = false;                       // the role is taken for the next caller of `resume`
  std::unique_ptr<Batch> batch_;                // used by the writing thread
};

}  // namespace karez::comm
