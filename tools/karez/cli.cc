// The command line, parsed with CLI11.
#include "tools/karez/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "karez/base/error.h"
#include "karez/base/suggest_names.h"

namespace karez::tools {
namespace {

void add(CLI::App& app, const Argument& argument) {
  std::visit(
      [&](auto* value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          app.add_flag(argument.name, *value, argument.doc);
        } else {
          CLI::Option* option = app.add_option(argument.name, *value, argument.doc);
          if constexpr (std::is_same_v<Value, std::vector<std::string>>)
            option->expected(1)->take_all()->allow_extra_args(false);
          else option->capture_default_str();
          if (argument.name[0] != '-') option->required();
        }
      },
      argument.value);
}

void fill(CLI::App& app, const Command& command, const Command*& chosen) {
  const std::size_t line = command.doc.find('\n');
  app.description(command.doc.substr(0, line));
  if (line != std::string::npos) app.footer(command.doc.substr(line + 1));
  for (const Argument& argument : command.arguments) add(app, argument);
  if (command.rest != nullptr) app.prefix_command();
  if (command.commands.empty()) {
    app.callback([&chosen, &command, &app] {
      chosen = &command;
      if (command.rest != nullptr) *command.rest = app.remaining();
    });
    return;
  }
  app.require_subcommand(1);
  for (const Command& one : command.commands) fill(*app.add_subcommand(one.name), one, chosen);
}

// Reports the error and the help page to read. An unknown command is named: CLI11 would only report that a command
// is missing.
int refuse(const Command& root, const CLI::App& app, int count, const char* const* words, std::string why) {
  std::string name = root.name;
  const Command* command = &root;
  const CLI::App* at = &app;
  int next = 1;  // the word after the commands found so far
  for (; !at->get_subcommands().empty(); ++next) {
    at = at->get_subcommands()[0];
    name += " " + at->get_name();
    for (const Command& one : command->commands)
      if (one.name == at->get_name()) {
        command = &one;
        break;
      }
  }
  if (!command->commands.empty() && next < count && words[next][0] != '-')
    why = cat("no subcommand of ", name, " is called '", words[next], "'; ",
              suggest_names(words[next], command->commands, [](const Command& c) { return c.name; }));
  std::fprintf(stderr, "%s: %s; see %s --help\n", root.name.c_str(), why.c_str(), name.c_str());
  return exit_code(ErrorKind::user);
}

// The number of words before the first "--" if another program's words follow. That program may have a "--" too;
// CLI11 would pass the words after it to the parent command.
int before_dashes(const Command& root, int count, const char* const* words) {
  const Command* command = &root;
  for (int next = 1; next < count && !command->commands.empty(); ++next) {
    auto at = std::find_if(command->commands.begin(), command->commands.end(),
                           [&](const Command& one) { return one.name == words[next]; });
    if (at == command->commands.end()) return count;
    command = &*at;
  }
  if (command->rest == nullptr) return count;
  return static_cast<int>(std::find(words, words + count, std::string_view("--")) - words);
}

}  // namespace

int run_command_line(const Command& root, int count, const char* const* words) {
  CLI::App app;
  app.name(root.name);
  const Command* chosen = nullptr;
  fill(app, root, chosen);
  try {
    const int before = before_dashes(root, count, words);
    app.parse(before, words);
    if (before < count) {
      std::vector<std::string>& rest = *chosen->rest;
      rest.insert(rest.end(), words + before + (rest.empty() ? 1 : 0), words + count);
    }
  } catch (const CLI::CallForHelp& help) { return app.exit(help); } catch (const CLI::ParseError& error) {
    return refuse(root, app, count, words, error.what());
  }
  return chosen->run();
}

}  // namespace karez::tools
