// Keeps the function that gives the line of the program.
#include "karez/data/creation_line.h"

#include <atomic>

namespace karez::data {
namespace {
std::atomic<std::string (*)()> line_provider{nullptr};
}

void set_line_provider(std::string (*provider)()) { line_provider = provider; }

std::string creation_line() {
  std::string (*const provider)() = line_provider;
  return provider == nullptr ? std::string() : provider();
}

}  // namespace karez::data
