// PMIx, by which launchers let the processes of a job exchange a few words before they know each other. Its library is
// looked for when it is needed: nothing links it.
#pragma once

#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"

namespace karez::comm {

class Pmix {
 public:
  Pmix();   // greets the launcher's server; throws Error (kind peer) where there is no library or no server
  ~Pmix();  // what was put stays
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  void put(const std::string& key, const std::string& value);          // for all processes of the job; each key once
  std::string get(int rank, const std::string& key, Seconds timeout);  // waits until that rank has put it

 private:
  struct Library;
  Library* library_ = nullptr;  // stays loaded
  char job_[256] = {};
};

}  // namespace karez::comm
