// Implements array sources, which copy a slice in runs that are contiguous in both memories, and the pool for copies.
#include "karez/data/array_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "karez/base/copy_bytes.h"
#include "karez/base/text.h"
#include "karez/device/memory.h"

namespace karez::data {
namespace {

constexpr int max_dimensions = 16;  // limits the index, which is on the stack so that reads allocate nothing

// Slices come from the boxes of the plan, so an invalid slice is a fault of the plan or its caller. The error shows
// both types.
void check_slice(const TensorType& type, std::span<const std::int64_t> begin, const View& view) {
  bool ok = view.dtype == type.dtype && view.rank() == type.rank() && begin.size() == type.shape.size();
  for (std::size_t d = 0; ok && d < begin.size(); ++d) ok = begin[d] >= 0 && begin[d] + view.shape[d] <= type.shape[d];
  if (!ok) fail(ErrorKind::shape, "a source of ", type, " has no slice ", view, " at [", join(begin, ", "), "]");
}

// Copies the slice that begins at `begin` out of the array with these bytes and this row-major view.
void read_slice(const std::byte* bytes, const View& view, std::span<const std::int64_t> begin, const TensorRef& out) {
  if (out.count() == 0) return;
  const auto& shape = out.shape();
  const auto item = static_cast<std::size_t>(size_of(view.dtype));
  const std::size_t rank = shape.size();
  if (rank == 0) {
    std::memcpy(out.data, bytes, item);
    return;
  }
  // Dimensions `run_dimension` and later form one run: the slice has all their elements, contiguous in both memories.
  const std::int64_t to_step = out.strides()[rank - 1];
  std::size_t run_dimension = rank - 1;
  std::int64_t run = shape[run_dimension];
  while (run_dimension > 0 && to_step == 1 && run == view.strides[run_dimension - 1] &&
         run == out.strides()[run_dimension - 1])
    run *= shape[--run_dimension];
  std::array<std::int64_t, max_dimensions> index{};
  while (true) {
    std::int64_t from = 0, to = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      from += (begin[d] + index[d]) * view.strides[d];
      to += index[d] * out.strides()[d];
    }
    const std::byte* source = bytes + from * static_cast<std::int64_t>(item);
    std::byte* target = out.data + to * static_cast<std::int64_t>(item);
    if (to_step == 1) {
      copy_bytes(target, source, static_cast<std::size_t>(run) * item);
    } else {
      for (std::int64_t i = 0; i < run; ++i)
        std::memcpy(target + i * to_step * static_cast<std::int64_t>(item),
                    source + i * static_cast<std::int64_t>(item), item);
    }
    std::size_t d = run_dimension;  // the next index of the dimensions before it
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

// Returns the address of the slice if its strides equal the array's in all dimensions of more than one element.
const std::byte* find_slice(const std::byte* bytes, const View& array_view, std::span<const std::int64_t> begin,
                            const View& view) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < begin.size(); ++d) {
    if (view.shape[d] > 1 && view.strides[d] != array_view.strides[d]) return nullptr;
    at += begin[d] * array_view.strides[d];
  }
  return bytes + at * size_of(array_view.dtype);
}

void check(const HostArray& array) {
  require(array.valid(), "a source needs an initialised array");
  require(array.view().rank() <= max_dimensions, "an array of ", array.view().rank(),
          " dimensions cannot be a source; the limit is ", max_dimensions);
}

class ArraySource : public Source {
 public:
  explicit ArraySource(HostArray array) : array_(std::move(array)), type_(array_.type()) {}
  TensorType type() const override { return type_; }
  bool may_block() const override { return false; }
  void read(std::int64_t, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    check_slice(type_, begin, *out.view);
    read_slice(array_.bytes(), array_.view(), begin, out);
  }
  const std::byte* find(std::int64_t, std::span<const std::int64_t> begin, const View& view) const override {
    check_slice(type_, begin, view);
    return find_slice(array_.bytes(), array_.view(), begin, view);
  }

 private:
  HostArray array_;
  TensorType type_;
};

class CopySource : public Source {
 public:
  explicit CopySource(std::int64_t bytes) : memory_(allocate_host(bytes, nullptr)) {}
  void assign(const HostArray& array) {
    view_ = array.view();
    type_ = array.type();
    copy_bytes(memory_.data(), array.bytes(), static_cast<std::size_t>(view_.bytes()));
  }
  std::int64_t bytes() const { return memory_.bytes(); }
  TensorType type() const override { return type_; }
  bool may_block() const override { return false; }
  void read(std::int64_t, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    check_slice(type_, begin, *out.view);
    read_slice(memory_.data(), view_, begin, out);
  }
  const std::byte* find(std::int64_t, std::span<const std::int64_t> begin, const View& view) const override {
    check_slice(type_, begin, view);
    return find_slice(memory_.data(), view_, begin, view);
  }

 private:
  Memory memory_;
  View view_;
  TensorType type_;
};

}  // namespace

std::shared_ptr<const Source> array_source(HostArray array) {
  check(array);
  return std::make_shared<ArraySource>(std::move(array));
}

// The idle blocks, and a clock that measures how long they are idle: it has one tick per copy.
struct ArrayCopyPool::State {
  struct IdleBlock {
    std::unique_ptr<CopySource> source;
    std::int64_t idle_since = 0;
  };
  static constexpr std::int64_t max_idle_ticks = 64;  // ticks after which idle memory is freed

  std::mutex mutex;
  std::vector<IdleBlock> idle;
  std::int64_t now = 0, allocated = 0, pooled_bytes = 0;

  // Takes the smallest idle block of at least `bytes` and at most 2 * `bytes` bytes.
  std::unique_ptr<CopySource> find(std::int64_t bytes) {
    auto best_block = idle.end();
    for (auto at = idle.begin(); at != idle.end(); ++at)
      if (at->source->bytes() >= bytes && at->source->bytes() <= 2 * bytes &&
          (best_block == idle.end() || at->source->bytes() < best_block->source->bytes()))
        best_block = at;
    if (best_block == idle.end()) return nullptr;
    auto result = std::move(best_block->source);
    idle.erase(best_block);
    return result;
  }
};

ArrayCopyPool::ArrayCopyPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<const Source> ArrayCopyPool::copy(const HostArray& array) {
  check(array);
  const std::int64_t bytes = std::max<std::int64_t>(array.view().bytes(), 1);
  std::unique_ptr<CopySource> source;
  std::vector<State::IdleBlock> expired;  // freed after the lock is released
  {
    std::lock_guard lock(state_->mutex);
    ++state_->now;
    source = state_->find(bytes);
    auto expired_begin = std::partition(state_->idle.begin(), state_->idle.end(), [&](const auto& r) {
      return state_->now - r.idle_since <= State::max_idle_ticks;
    });
    for (auto at = expired_begin; at != state_->idle.end(); ++at) {
      state_->pooled_bytes -= at->source->bytes();
      expired.push_back(std::move(*at));
    }
    state_->idle.erase(expired_begin, state_->idle.end());
    if (!source) ++state_->allocated, state_->pooled_bytes += bytes;
  }
  if (!source) source = std::make_unique<CopySource>(bytes);
  source->assign(array);
  return {source.release(), [state = state_](const CopySource* released_copy) {
            std::unique_ptr<CopySource> owner(const_cast<CopySource*>(released_copy));
            std::lock_guard lock(state->mutex);
            state->idle.push_back({std::move(owner), state->now});
          }};
}

std::int64_t ArrayCopyPool::allocated() const {
  std::lock_guard lock(state_->mutex);
  return state_->allocated;
}

std::int64_t ArrayCopyPool::pooled_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->pooled_bytes;
}

}  // namespace karez::data
