// The style of a program's help.
#pragma once

#include "src/command_line/command.hpp"

namespace wreath::command_line {

// Gives help lines of 100 columns; a text with lines of its own may have 120. Call it before subcommands are added,
// which then have the style, too.
void set_style(CLI::App& app);

}  // namespace wreath::command_line
