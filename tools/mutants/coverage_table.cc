// Marks the basic blocks that run: GCC's -fsanitize-coverage=trace-pc calls this function in each block, and
// coverage_map.py reads the table.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" __attribute__((visibility("hidden"))) const unsigned char __ehdr_start[];  // the start of this module

namespace {
constexpr std::size_t table_bytes = std::size_t{1} << 26;  // maximum bytes of code in one program or library

// One byte per address of code. If COVERAGE_TABLES names a folder, the table is a file in it, which all processes of
// one program share, so that the blocks of a killed process are recorded too. Otherwise the table is not used.
alignas(4096) unsigned char table[table_bytes];

std::string path_of_this() {
  char text[PATH_MAX] = {};
  const auto headers = ::getauxval(AT_PHDR);  // the headers of the program
  const auto begin = reinterpret_cast<std::uintptr_t>(__ehdr_start);
  Dl_info info{};
  if (headers - begin < 4096) return ::readlink("/proc/self/exe", text, sizeof text - 1) > 0 ? text : "";
  if (::dladdr(__ehdr_start, &info) == 0 || ::realpath(info.dli_fname, text) == nullptr) return "";
  return text;
}

[[gnu::constructor(101)]] void share_table() {
  const char* folder = std::getenv("COVERAGE_TABLES");
  if (folder == nullptr) return;
  std::string name = path_of_this();
  for (char& c : name)
    if (c == '/') c = '!';
  const int file = ::open((std::string(folder) + "/" + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;  // the folder was removed after its run
  if (::ftruncate(file, table_bytes) == 0)
    ::mmap(table, table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  ::close(file);
}
}  // namespace

extern "C" __attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc() {
  const auto begin = reinterpret_cast<std::uintptr_t>(__ehdr_start);
  const auto at = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - begin;
  auto& byte = reinterpret_cast<volatile unsigned char*>(table)[at % table_bytes];  // all threads write the same value
  if (byte == 0) byte = 1;
}
