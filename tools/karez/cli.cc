// Parses the command line with CLI11 and runs the selected command.
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

void add_command(CLI::App& app, const Command& command, const Command*& selected) {
  const std::size_t line = command.doc.find('\n');
  app.description(command.doc.substr(0, line));
  if (line != std::string::npos) app.footer(command.doc.substr(line + 1));
  for (const Argument& argument : command.arguments) add(app, argument);
  if (command.rest != nullptr) app.prefix_command();
  if (command.commands.empty()) {
    app.callback([&selected, &command, &app] {
      selected = &command;
      if (command.rest != nullptr) *command.rest = app.remaining();
    });
    return;
  }
  app.require_subcommand(1);
  for (const Command& child : command.commands) add_command(*app.add_subcommand(child.name), child, selected);
}

// Rewrites a message of CLI11: "Could not convert: --count = x" becomes "--count: invalid number 'x'". Other messages
// begin with a lower-case letter, because the program's name precedes them.
std::string error_reason(std::string reason) {
  for (const char* article : {"A ", "The "})
    if (reason.rfind(article, 0) == 0) reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
  const std::string prefix = "Could not convert: ";
  const std::size_t end = reason.find(" = ");
  if (reason.rfind(prefix, 0) != 0 || end == std::string::npos) return reason;
  return cat(reason.substr(prefix.size(), end - prefix.size()), ": invalid number '", reason.substr(end + 3), "'");
}

// Prints the error and the command that shows help, and returns the exit code. Names an unknown command, for which
// CLI11 would only report that a command is missing.
int report_error(const Command& root, const CLI::App& app, int count, const char* const* words, std::string reason) {
  std::string name = root.name;
  const Command* command = &root;
  const CLI::App* current_app = &app;
  int next = 1;  // the word after the commands found so far
  for (; !current_app->get_subcommands().empty(); ++next) {
    current_app = current_app->get_subcommands()[0];
    name += " " + current_app->get_name();
    for (const Command& child : command->commands)
      if (child.name == current_app->get_name()) {
        command = &child;
        break;
      }
  }
  if (!command->commands.empty() && next < count && words[next][0] != '-')
    reason = cat("unknown subcommand '", words[next], "' of ", name, "; ",
                 suggest_names(words[next], command->commands, [](const Command& c) { return c.name; }));
  std::fprintf(stderr, "%s: %s; see %s --help\n", root.name.c_str(), reason.c_str(), name.c_str());
  return exit_code(ErrorKind::user);
}

// Returns the number of words that CLI11 parses: those before the first "--" if the selected command takes the words of
// another program, otherwise all. The other program may use "--" too, and CLI11 would pass the words after it to the
// parent command.
int count_own_words(const Command& root, int count, const char* const* words) {
  const Command* command = &root;
  for (int next = 1; next < count && !command->commands.empty(); ++next) {
    auto match = std::find_if(command->commands.begin(), command->commands.end(),
                              [&](const Command& child) { return child.name == words[next]; });
    if (match == command->commands.end()) return count;
    command = &*match;
  }
  if (command->rest == nullptr) return count;
  return static_cast<int>(std::find(words, words + count, std::string_view("--")) - words);
}

}  // namespace

int run_command_line(const Command& root, int count, const char* const* words) {
  CLI::App app;
  app.name(root.name);
  const Command* selected = nullptr;
  add_command(app, root, selected);
  try {
    const int parsed_count = count_own_words(root, count, words);
    app.parse(parsed_count, words);
    if (parsed_count < count) {
      std::vector<std::string>& rest = *selected->rest;
      rest.insert(rest.end(), words + parsed_count + (rest.empty() ? 1 : 0), words + count);
    }
  } catch (const CLI::CallForHelp& help) { return app.exit(help); } catch (const CLI::ParseError& error) {
    return report_error(root, app, count, words, error_reason(error.what()));
  }
  return selected->run();
}

}  // namespace karez::tools
