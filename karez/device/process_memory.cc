// Reads the memory of this process from Linux.
#include "karez/device/process_memory.h"

#include <unistd.h>

#include <fstream>

namespace karez::device {

std::int64_t process_memory() {
  std::int64_t all = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

}  // namespace karez::device
