// The main of every program with a command line shares these.
#pragma once

#include <functional>
#include <string_view>

#include "src/command_line/command.hpp"

namespace wreath::command_line {

// What a main does: `body`, whose exit code it returns. An exception, or standard output that could not be written, is
// said on standard error, and ends a program that went well otherwise with its error's exit code. Standard streams that
// are closed lead nowhere, or a pipe or socket would get their numbers and what is printed.
int run_main(const std::function<int()>& body);

// Says `text` on standard error, as an error of ours. What it quotes of files, hosts and peers cannot steer a terminal.
void complain(std::string_view text);

}  // namespace wreath::command_line
