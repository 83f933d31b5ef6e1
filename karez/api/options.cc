// Command-line options: parses arguments by the list of options.
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

template <class Number> Number number_of(std::string_view name, const std::string& text, std::string_view kind) {
  Number value{};
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(fault == std::errc() && end == text.data() + text.size(), "option --", name, ": '", text, "' is not ", kind);
  return value;
}

}  // namespace

bool Options::read(int count, const char* const* words) {
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    if (word == "--help" || word == "-h") return false;
    require(starts_with(word, "--"), "'", word, "' is not an option; options begin with --");
    auto equals = word.find('=');
    std::string name = word.substr(2, equals == word.npos ? word.npos : equals - 2);
    auto option = std::find_if(known_.begin(), known_.end(), [&](const Option& o) { return o.name == name; });
    if (option == known_.end())
      fail("there is no option --", name, "; ",
           suggest_names("--" + name, known_, [](const Option& o) { return "--" + o.name; }));
    if (equals == word.npos) require(i + 1 < count, "option --", name, " has no value");
    option->value = equals == word.npos ? words[++i] : word.substr(equals + 1);
  }
  return true;
}

const std::string& Options::text(std::string_view name) const {
  auto option = std::find_if(known_.begin(), known_.end(), [&](const Option& o) { return o.name == name; });
  require(option != known_.end(), "the program reads an option --", name, " that it does not list");
  return option->value;
}

std::int64_t Options::integer(std::string_view name, std::int64_t least, std::int64_t most) const {
  auto value = number_of<std::int64_t>(name, text(name), "an integer");
  constexpr auto any = std::numeric_limits<std::int64_t>::max();
  require(value >= least && value <= most, "option --", name, ": ", value,
          most == any ? cat(" is below ", least) : cat(" is not in ", least, " .. ", most));
  return value;
}

double Options::real(std::string_view name) const {
  auto value = number_of<double>(name, text(name), "a number");
  require(std::isfinite(value), "option --", name, ": ", value, " is not a finite number");
  return value;
}

std::string Options::one_of(std::string_view name, const std::vector<std::string>& choices) const {
  const std::string& value = text(name);
  require(std::find(choices.begin(), choices.end(), value) != choices.end(), "option --", name, ": '", value,
          "' is not one of ", join(choices, ", "));
  return value;
}

std::string Options::help() const {
  std::string out;
  for (const auto& option : known_) {
    std::string left = cat("  --", option.name, " ", option.value.empty() ? "VALUE" : option.value);
    out += cat(left, std::string(left.size() < 26 ? 26 - left.size() : 1, ' '), option.help, "\n");
  }
  return out;
}

}  // namespace karez
