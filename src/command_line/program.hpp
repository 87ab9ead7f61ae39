// Functions that the main of every program with a command line shares.
#pragma once

#include <functional>
#include <string_view>

#include "src/command_line/command.hpp"
#include "wreath/result.hpp"

namespace wreath::command_line {

// Runs `body` for a main, and returns its exit code. Standard error reports an exception, and standard output that
// could not be written. Either ends a program that went well otherwise with the exit code of the error. Closed standard
// streams are opened on /dev/null; otherwise a pipe or a socket would get their numbers and the printed text.
int run_main(const std::function<int()>& body);

// Prints `text` on standard error as an error of ours. Texts of files, hosts and peers in it cannot control the
// terminal.
void complain(std::string_view text);

// Prints `text`, which says what is wrong with the command line, as complain() does. All ranks of a job have the same
// command line, so only the first rank of each host prints it, and a process without a known number.
void complain_of_usage(std::string_view text);

// Prints an error as complain() does, and returns its exit code.
int fail(int code, std::string_view text);
int fail(const Error& error);

}  // namespace wreath::command_line
