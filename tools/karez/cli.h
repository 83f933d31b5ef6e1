// The command line as data: commands, their arguments and what runs them. Only cli.cc knows the library that reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

// "--launches" is an option, whose value as it stands is the default; any other name is a positional argument, which
// must be given.
struct Argument {
  std::string name;
  std::string doc;
  std::variant<std::string*, std::int64_t*, double*, bool*, std::vector<std::string>*>
      value;  // must outlive the parse; bool: a flag; list: once each
};

struct Command {
  std::string name;
  std::string doc;  // a sentence; further lines stand below the options
  std::vector<Argument> arguments;
  std::function<int()> run;       // returns the exit code; none where there are commands
  std::vector<Command> commands;  // one of which must follow
  std::vector<std::string>* rest =
      nullptr;  // the first word that is no option of ours and all behind it: another program's
};

// Reads the words and runs the command they name. Help goes to standard output (0), what does not parse to standard
// error (64).
int run_command_line(const Command& root, int count, const char* const* words);

}  // namespace karez::tools
