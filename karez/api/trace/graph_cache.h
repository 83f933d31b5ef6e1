// GraphCache: graphs of computations outside of compiled functions, which a world keeps for later computations of equal
// structure.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace karez {

// Graphs of one world, by what determines them. Any thread may call the functions.
template <class T> class GraphCache {
 public:
  std::shared_ptr<const T> find(const std::string& key) const {  // null if there is none
    std::lock_guard lock(mutex_);
    const auto match = graphs_.find(key);
    return match == graphs_.end() ? nullptr : match->second;
  }
  // Forgets all graphs if they would need too much memory together.
  void add(std::string key, std::shared_ptr<const T> graph, std::size_t nodes) {
    std::lock_guard lock(mutex_);
    const std::size_t bytes = key.size() + nodes * bytes_per_node;
    if (bytes > max_bytes || graphs_.count(key) > 0) return;  // another thread may have added an equal graph
    if (bytes_ + bytes > max_bytes) graphs_.clear(), bytes_ = 0;
    graphs_.emplace(std::move(key), std::move(graph));
    bytes_ += bytes;
  }

 private:
  static constexpr std::size_t max_bytes = std::size_t{64} << 20;
  static constexpr std::size_t bytes_per_node = 1024;  // estimated, with values and attributes

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const T>> graphs_;
  std::size_t bytes_ = 0;
};

}  // namespace karez
