// PMIx: the interface by which launchers let the processes of a job exchange short strings before they are connected.
// Its library is loaded when it is needed; nothing links to it.
#pragma once

#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"

namespace karez::comm {

class Pmix {
 public:
  Pmix();   // connects to the launcher's server; throws Error (kind peer) if there is no library or no server
  ~Pmix();  // published values remain
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  void put(const std::string& key, const std::string& value);          // for all processes of the job; each key once
  std::string get(int rank, const std::string& key, Seconds timeout);  // waits until that rank has put it

 private:
  struct Library;
  Library* library_ = nullptr;  // remains loaded
  char job_[256] = {};
};

}  // namespace karez::comm
