// Describes a command line as data: commands, their arguments and the functions that run them. Only cli.cc uses the
// parser library.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

// A name that begins with '-', such as "--launches", is an option; the initial value of its variable is the default.
// Any other name is a required positional argument.
struct Argument {
  std::string name;
  std::string doc;
  std::variant<std::string*, std::int64_t*, double*, bool*, std::vector<std::string>*>
      value;  // the variable, which must outlive the parse; bool: a flag; list: an option that can be repeated
};

struct Command {
  std::string name;
  std::string doc;  // the first line is a sentence; further lines are printed after the options
  std::vector<Argument> arguments;
  std::function<int()> run;       // returns the exit code; empty if there are subcommands
  std::vector<Command> commands;  // subcommands; if there are any, one is required
  // If not null, receives the words of another program: all words from the first one that is not an option of this
  // command.
  std::vector<std::string>* rest = nullptr;
};

// Parses the words and runs the command that they select. Help is printed to standard output (exit code 0), errors to
// standard error (exit code 64).
int run_command_line(const Command& root, int count, const char* const* words);

}  // namespace karez::tools
