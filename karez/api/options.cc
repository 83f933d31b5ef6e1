// Implements Options: parses command-line arguments according to a list of options.
#include "karez/api/options.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "karez/base/error.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"

namespace karez {
namespace {

template <class Number> Number parse_number(std::string_view name, const std::string& text, std::string_view kind) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "option --", name, ": '", text, "' is not ", kind);
  return value;
}

}  // namespace

bool Options::read(int count, const char* const* arguments) {
  for (int i = 1; i < count; ++i) {
    std::string argument = arguments[i];
    if (argument == "--help" || argument == "-h") return false;
    require(starts_with(argument, "--"), "'", argument, "' is not an option; options begin with --");
    auto equals = argument.find('=');
    std::string name = argument.substr(2, equals == argument.npos ? argument.npos : equals - 2);
    auto option = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
    if (option == options_.end())
      fail("unknown option --", name, "; ",
           suggest_names("--" + name, options_, [](const Option& o) { return "--" + o.name; }));
    if (equals == argument.npos) require(i + 1 < count, "option --", name, " has no value");
    option->value = equals == argument.npos ? arguments[++i] : argument.substr(equals + 1);
  }
  return true;
}

const std::string& Options::text(std::string_view name) const {
  auto option = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
  require(option != options_.end(), "the program reads option --", name, ", which is not in its list of options");
  return option->value;
}

std::int64_t Options::integer(std::string_view name, std::int64_t min, std::int64_t max) const {
  auto value = parse_number<std::int64_t>(name, text(name), "an integer");
  constexpr auto no_limit = std::numeric_limits<std::int64_t>::max();
  if (value < min || value > max)
    fail("option --", name, ": ", value,
         max == no_limit ? cat(" is below ", min) : cat(" is not from ", min, " to ", max));
  return value;
}

double Options::real(std::string_view name) const {
  auto value = parse_number<double>(name, text(name), "a number");
  require(std::isfinite(value), "option --", name, ": ", value, " is not a finite number");
  return value;
}

std::string Options::one_of(std::string_view name, const std::vector<std::string>& choices) const {
  const std::string& value = text(name);
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    fail("option --", name, ": '", value, "' is not one of ", join(choices, ", "));
  return value;
}

std::string Options::help() const {
  std::string out;
  for (const auto& option : options_) {
    std::string usage = cat("  --", option.name, " ", option.value.empty() ? "VALUE" : option.value);
    out += cat(usage, std::string(usage.size() < 26 ? 26 - usage.size() : 1, ' '), option.help, "\n");
  }
  return out;
}

}  // namespace karez
