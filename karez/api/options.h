// Command-line options of a small program: a list of names with defaults; any other option is an error.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace karez {

// An option with its name, value and help text.
struct Option {
  std::string name;   // "epochs", written --epochs 3 or --epochs=3
  std::string value;  // the default, later the user's value
  std::string help;
};

// The options of a program with their values.
class Options {
 public:
  explicit Options(std::vector<Option> known) : known_(std::move(known)) {}

  // Reads the arguments after the program's name. Returns false if the user requests --help. Errors: an unknown option,
  // an option without a value, a word that is not an option.
  bool read(int count, const char* const* words);

  const std::string& text(std::string_view name) const;
  // Values such as "a" and "3x" are errors that name the option, as is a number outside of least .. most.
  std::int64_t integer(std::string_view name, std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  double real(std::string_view name) const;  // finite
  std::string one_of(std::string_view name, const std::vector<std::string>& choices) const;
  std::string help() const;  // one line for each option

 private:
  std::vector<Option> known_;
};

}  // namespace karez
