// Sites: the numbers by which a thread distinguishes the random initial values of its variables.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace karez {

// Counts the sites that a thread has assigned to variables, and the existing worlds that the thread created. When the
// last of these worlds ends, sites count from 0 again.
struct Sites {
  std::atomic<std::int64_t> next = 0;
  std::atomic<int> worlds = 0;
  std::mutex mutex;
  // The number of parameters by site. Guarded by the mutex, because a world may end on another thread.
  std::map<std::string, int> parameter_counts;
  void restart();
};
// Counts one world of the thread that creates the object, for the object's lifetime.
class SitesReference {
 public:
  SitesReference();
  ~SitesReference();
  SitesReference(const SitesReference&) = delete;
  SitesReference& operator=(const SitesReference&) = delete;

 private:
  std::shared_ptr<Sites> sites_;
};

// Returns the sites of this thread.
const std::shared_ptr<Sites>& thread_sites();

}  // namespace karez
