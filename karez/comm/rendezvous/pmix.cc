// PMIx: the required functions of the standard, found by name (their ABI has been the same since version 2).
#include "karez/comm/rendezvous/pmix.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "karez/base/error.h"

namespace karez::comm {
namespace {

constexpr std::size_t job_bytes = 256, key_bytes = 512;
constexpr std::uint16_t type_string = 3, type_int = 6;
constexpr std::uint8_t scope_global = 3;

struct Process {
  char job[job_bytes];
  std::uint32_t rank;
};
struct Value {
  std::uint16_t type;
  union {
    char* string;
    int number;
    std::byte padding[64];  // at least the size of the largest alternative
  } data;
};
struct Info {
  char key[key_bytes];
  std::uint32_t flags;
  Value value;
};
static_assert(offsetof(Value, data) == 8 && offsetof(Info, value) == 520);

}  // namespace

struct Pmix::Library {
  int (*init)(Process*, Info*, std::size_t);
  int (*put)(std::uint8_t, const char*, Value*);
  int (*commit)();
  int (*get)(const Process*, const char*, const Info*, std::size_t, Value**);
  int (*finalize)(const Info*, std::size_t);
  const char* (*error)(int);

  void require(int status, std::string_view action) const {
    base::require(ErrorKind::peer, status == 0, "PMIx failed when ", action, ": ", status == 0 ? "" : error(status));
  }
};

Pmix::Pmix() {
  static Library library{};
  void* handle = nullptr;
  for (const char* name : {"libpmix.so.2", "libpmix.so"})
    if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  base::require(ErrorKind::peer, handle != nullptr, "the launcher offers PMIx, but libpmix.so.2 cannot be loaded (",
                dlerror(), "); set MASTER_ADDR to rank 0's host instead");
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    base::require(ErrorKind::peer, function != nullptr, "libpmix does not define ", name);
  };
  find(library.init, "PMIx_Init");
  find(library.put, "PMIx_Put");
  find(library.commit, "PMIx_Commit");
  find(library.get, "PMIx_Get");
  find(library.finalize, "PMIx_Finalize");
  find(library.error, "PMIx_Error_string");
  Process process{};
  library.require(library.init(&process, nullptr, 0), "connecting to its server");
  std::memcpy(job_, process.job, sizeof job_);
  library_ = &library;
}

Pmix::~Pmix() {
  if (library_ != nullptr) library_->finalize(nullptr, 0);
}

void Pmix::put(const std::string& key, const std::string& value) {
  std::string text = value;
  Value out{type_string, {text.data()}};
  library_->require(library_->put(scope_global, key.c_str(), &out), cat("putting '", key, "'"));
  library_->require(library_->commit(), "committing the value");
}

std::string Pmix::get(int rank, const std::string& key, Seconds timeout) {
  Process peer{};
  std::memcpy(peer.job, job_, sizeof job_);
  peer.rank = static_cast<std::uint32_t>(rank);
  Info limit{};
  std::strcpy(limit.key, "pmix.timeout");
  limit.value.type = type_int;
  limit.value.data.number = std::max(1, static_cast<int>(timeout.count()));
  Value* value = nullptr;
  // The server of a rank on another host may report that the key is not found, instead of waiting.
  constexpr int not_found = -46;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int status = library_->get(&peer, key.c_str(), &limit, 1, &value);
  while (status == not_found && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    status = library_->get(&peer, key.c_str(), &limit, 1, &value);
  }
  library_->require(status, cat("waiting for '", key, "' of rank ", rank));
  base::require(ErrorKind::peer, value != nullptr && value->type == type_string && value->data.string != nullptr,
                "PMIx: '", key, "' of rank ", rank, " is not a string");
  std::string out = value->data.string;
  std::free(value->data.string);
  std::free(value);
  return out;
}

}  // namespace karez::comm
