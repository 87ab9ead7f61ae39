// Functions that the main of every program with a command line shares.
#pragma once

#include <functional>
#include <string_view>

#include "src/command_line/command.hpp"

namespace wreath::command_line {

// Runs `body` for a main, and returns its exit code. Standard error reports an exception, and standard output that
// could not be written. Either ends a program that went well otherwise with the exit code of the error. Closed standard
// streams are opened on /dev/null; otherwise a pipe or a socket would get their numbers and the printed text.
int run_main(const std::function<int()>& body);

// Prints `text` on standard error as an error of ours. Texts of files, hosts and peers in it cannot control the
// terminal.
void complain(std::string_view text);

}  // namespace wreath::command_line
