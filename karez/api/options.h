// Options: a parser for the command-line options of small programs. A list gives the name and default of each option.
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
  explicit Options(std::vector<Option> options) : options_(std::move(options)) {}

  // Reads the arguments of the command line after the program's name. Returns false if the user requests --help.
  // Errors: an unknown option, an option without a value, an argument that is not an option.
  bool read(int count, const char* const* arguments);

  const std::string& text(std::string_view name) const;
  // Returns the value as an integer. If the value is not a number ("a", "3x"), is below `min` or is above `max`, throws
  // an error that names the option.
  std::int64_t integer(std::string_view name, std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  double real(std::string_view name) const;  // a finite number; throws for any other text
  // Returns the value; throws if it is not one of the choices.
  std::string one_of(std::string_view name, const std::vector<std::string>& choices) const;
  std::string help() const;  // one line for each option

 private:
  std::vector<Option> options_;
};

}  // namespace karez
