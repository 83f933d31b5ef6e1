// Keeps idle blocks of memory. New memory costs a page fault for every 4 KiB, as much as copying a batch.
#include "karez/data/stages/array_pool.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "karez/device/memory.h"

namespace karez::data {

struct ArrayPool::State {
  explicit State(std::size_t most) : max_idle(most) {}

  // Counts an allocation. Returns the blocks that none of the last allocations has needed, to be freed.
  std::vector<std::unique_ptr<Memory>> unneeded() {
    fewest_idle = std::min(fewest_idle, idle.size());
    if (++allocations % window != 0) return {};
    const auto end = idle.begin() + static_cast<std::ptrdiff_t>(fewest_idle);
    std::vector<std::unique_ptr<Memory>> out(std::move_iterator(idle.begin()), std::move_iterator(end));
    idle.erase(idle.begin(), end);
    fewest_idle = idle.size();
    return out;
  }

  static constexpr std::int64_t window = 64;  // allocations
  const std::size_t max_idle;                 // blocks; the one that has been idle for longest is freed first
  std::mutex mutex;
  std::vector<std::unique_ptr<Memory>> idle;
  std::size_t fewest_idle = 0;  // blocks in this window
  std::int64_t allocations = 0;
  std::int64_t allocated = 0;
};

ArrayPool::ArrayPool(std::size_t max_idle) : state_(std::make_shared<State>(max_idle)) {}

HostArray ArrayPool::allocate(TensorType type) {
  const std::int64_t bytes = std::max<std::int64_t>(type.bytes(), 1);
  std::unique_ptr<Memory> block;
  std::vector<std::unique_ptr<Memory>> unneeded;
  {
    std::lock_guard lock(state_->mutex);
    auto at =
        std::find_if(state_->idle.rbegin(), state_->idle.rend(), [&](const auto& b) { return b->bytes() == bytes; });
    if (at != state_->idle.rend()) {
      block = std::move(*at);
      state_->idle.erase(std::next(at).base());
    } else {
      ++state_->allocated;
    }
    unneeded = state_->unneeded();
  }
  unneeded.clear();
  if (!block) block = std::make_unique<Memory>(allocate_host(bytes, nullptr));
  std::byte* data = block->data();
  std::shared_ptr<Memory> owner(block.release(), [state = state_](Memory* released) {
    std::unique_ptr<Memory> idle(released), expired;
    std::lock_guard lock(state->mutex);
    state->idle.push_back(std::move(idle));
    if (state->idle.size() <= state->max_idle) return;
    expired = std::move(state->idle.front());
    state->idle.erase(state->idle.begin());
  });
  return HostArray(std::move(type), std::shared_ptr<std::byte[]>(owner, data));
}

std::int64_t ArrayPool::allocated() const {
  std::lock_guard lock(state_->mutex);
  return state_->allocated;
}

}  // namespace karez::data
