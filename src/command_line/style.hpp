// How help looks.
#pragma once

#include "src/command_line/command.hpp"

namespace wreath::command_line {

// Help in lines of 100 columns, 120 where a text has lines of its own. Before subcommands are added, which then have
// it, too.
void set_style(CLI::App& app);

}  // namespace wreath::command_line
