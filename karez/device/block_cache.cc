// Keeps freed blocks by size, and returns those that are not needed any more to the operating system.
#include "karez/device/block_cache.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/device/free_blocks.h"

namespace karez::device {

BlockCache::BlockCache(std::int64_t max_mapped) : max_mapped_(max_mapped) {}

BlockCache::~BlockCache() {
  for (auto& [size, blocks] : classes_) free_idle(size, blocks, blocks.idle.size());
}

std::byte* BlockCache::new_block(std::int64_t size) {
  if (size >> 47) return nullptr;  // sanitizers abort if malloc is called with such sizes
  const auto bytes = static_cast<std::size_t>(size);
  if (mapped_ < max_mapped_) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    ++mapped_;
    return static_cast<std::byte*>(data);
  }
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
  if (data != nullptr) from_malloc_.insert(data);
  return data;
}

void BlockCache::delete_block(std::byte* data, std::int64_t size) {
  if (from_malloc_.erase(data) > 0) return std::free(data);
  --mapped_;
  munmap(data, static_cast<std::size_t>(size));
}

std::byte* BlockCache::allocate(std::int64_t bytes) {
  const std::int64_t size = FreeBlocks::capacity(bytes);
  std::lock_guard lock(mutex_);
  SizeClass& blocks = classes_[size];
  std::byte* data = nullptr;
  if (!blocks.idle.empty()) {
    data = blocks.idle.back();
    blocks.idle.pop_back();
    idle_bytes_ -= size;
  } else {
    data = new_block(size);
  }
  blocks.fewest_idle = std::min(blocks.fewest_idle, blocks.idle.size());
  if (++allocations_ % window == 0) free_unneeded();
  if (data != nullptr) bytes_in_use_ += size;
  return data;
}

void BlockCache::free(std::byte* data, std::int64_t bytes) {
  const std::int64_t size = FreeBlocks::capacity(bytes);
  std::lock_guard lock(mutex_);
  bytes_in_use_ -= size;
  if (idle_bytes_ + size > std::max(max_idle, bytes_in_use_ / 2)) return delete_block(data, size);
  classes_[size].idle.push_back(data);
  idle_bytes_ += size;
}

// Frees the blocks that were idle all through the last window, and begins a new one.
void BlockCache::free_unneeded() {
  for (auto at = classes_.begin(); at != classes_.end();) {
    SizeClass& blocks = at->second;
    free_idle(at->first, blocks, blocks.fewest_idle);
    blocks.fewest_idle = blocks.idle.size();
    at = blocks.idle.empty() ? classes_.erase(at) : std::next(at);
  }
}

// Frees the blocks that have been idle for longest.
void BlockCache::free_idle(std::int64_t size, SizeClass& blocks, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) delete_block(blocks.idle[i], size);
  blocks.idle.erase(blocks.idle.begin(), blocks.idle.begin() + static_cast<std::ptrdiff_t>(count));
  idle_bytes_ -= size * static_cast<std::int64_t>(count);
}

std::int64_t BlockCache::idle_bytes() const {
  std::lock_guard lock(mutex_);
  return idle_bytes_;
}

std::int64_t BlockCache::bytes_in_use() const {
  std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

// The cache of the process. It is never destroyed, because arrays may outlive every other object.
//
// The child of a fork must not inherit a locked mutex, so forks lock the cache. A function's static variable cannot
// hold the cache: the child of a fork during its initialisation would wait forever for a thread that it does not have.
// Therefore each thread that finds no cache makes one, registers the handlers and then tries to publish its own.
struct ProcessCache {
  static BlockCache& get() {
    if (BlockCache* cache = published.load(std::memory_order_acquire)) return *cache;
    auto made = std::make_unique<BlockCache>();
    pthread_atfork(
        &before_fork, [] { after_fork(false); }, [] { after_fork(true); });
    BlockCache* other = nullptr;
    if (published.compare_exchange_strong(other, made.get(), std::memory_order_acq_rel)) return *made.release();
    return *other;
  }

 private:
  // The handlers may be registered several times; only the outermost ones act.
  static void before_fork() {
    if (depth++ > 0) return;
    locked = published.load(std::memory_order_acquire);
    if (locked != nullptr) locked->mutex_.lock();
  }
  static void after_fork(bool is_child) {
    if (depth == 0 || --depth > 0) return;
    if (locked != nullptr) locked->mutex_.unlock();
    else if (is_child) published.store(nullptr, std::memory_order_release);  // published, perhaps locked, since then
  }

  static constinit std::atomic<BlockCache*> published;
  static constinit thread_local BlockCache* locked;
  static constinit thread_local int depth;
};

constinit std::atomic<BlockCache*> ProcessCache::published = nullptr;
constinit thread_local BlockCache* ProcessCache::locked = nullptr;
constinit thread_local int ProcessCache::depth = 0;

std::shared_ptr<std::byte[]> allocate_shared_bytes(std::int64_t bytes) {
  const bool cached = bytes >= BlockCache::min_bytes;
  const auto size = static_cast<std::size_t>(round_up(std::max<std::int64_t>(bytes, 1), 64));
  std::byte* data =
      cached ? ProcessCache::get().allocate(bytes) : static_cast<std::byte*>(std::aligned_alloc(64, size));
  if (data == nullptr) fail(ErrorKind::device, "out of host memory: ", bytes_text(bytes), " requested");
  if (!cached) return {data, [](std::byte* block) { std::free(block); }};
  return {data, [bytes](std::byte* block) { ProcessCache::get().free(block, bytes); }};
}

}  // namespace karez::device
