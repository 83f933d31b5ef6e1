// The command line as data: commands, their arguments and the functions that run them. Only cli.cc uses the parser
// library.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

// "--launches" is an option, whose initial value is the default; any other name is a required positional argument.
struct Argument {
  std::string name;
  std::string doc;
  std::variant<std::string*, std::int64_t*, double*, bool*, std::vector<std::string>*>
      value;  // must outlive the parse; bool: a flag; list: the option is repeated
};

struct Command {
  std::string name;
  std::string doc;  // a sentence; further lines are printed after the options
  std::vector<Argument> arguments;
  std::function<int()> run;       // returns the exit code; empty if there are commands
  std::vector<Command> commands;  // one of them is required
  std::vector<std::string>* rest =
      nullptr;  // words of another program: from the first word that is not an option of this command on
};

// Parses the words and runs the command that they select. Help is printed to standard output (exit code 0), errors to
// standard error (64).
int run_command_line(const Command& root, int count, const char* const* words);

}  // namespace karez::tools
