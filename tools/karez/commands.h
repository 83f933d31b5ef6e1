// The subcommands of `karez`, each in one file of this folder.
#pragma once

#include "tools/karez/cli.h"
#include "tools/namespace.h"

namespace karez::tools {

Command show_command();
Command verify_command();
Command diff_command();
Command explain_command();
Command simulate_command();
Command exec_command();
Command opt_command();
Command profile_command();
Command run_command();
Command agent_command();
Command doctor_command();
Command flight_command();

}  // namespace karez::tools
