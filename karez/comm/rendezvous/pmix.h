// PMIx: the interface through which the processes of a job exchange short strings before they are connected. A launcher
// offers it; its library is loaded when first needed, and no binary is linked to it.
#pragma once

#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

class Pmix {
 public:
  Pmix();   // connects to the launcher's server; throws Error (kind peer) if the library or the server is missing
  ~Pmix();  // published values remain
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  void put(const std::string& key, const std::string& value);  // for all processes of the job; each key may be put once
  std::string get(int rank, const std::string& key, Seconds timeout);  // waits until this rank has put the key

 private:
  struct Library;
  Library* library_ = nullptr;  // remains loaded
  char job_[256] = {};
};

}  // namespace karez::comm
