// Command-line options of a small program: a list of names with defaults; anything else is an error.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace karez {

// A word of a command line, and where its value goes.
struct Option {
  std::string name;   // "epochs", written --epochs 3 or --epochs=3
  std::string value;  // the default, then what the user gave
  std::string help;
};

// A program's words with their values.
class Options {
 public:
  explicit Options(std::vector<Option> known) : known_(std::move(known)) {}

  // Reads the arguments behind the program's name. False: the user asked for --help. Errors: an option that is not
  // known, one without a value, a word that belongs to no option.
  bool read(int count, const char* const* words);

  const std::string& text(std::string_view name) const;
  // "a", "3x" and the like are errors with the option's name, as is a number outside of least .. most.
  std::int64_t integer(std::string_view name, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  double real(std::string_view name) const;  // finite
  std::string one_of(std::string_view name, const std::vector<std::string>& choices) const;
  std::string help() const;  // one line an option

 private:
  std::vector<Option> known_;
};

}  // namespace karez
