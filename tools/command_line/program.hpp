// What all programs with a CLI11 command line share: help in lines that fit a terminal, and what they say of a mistake.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace wreath::command_line {

// Help in lines of 100 columns, 120 where a text has lines of its own. Before subcommands are added, which then have
// it, too.
void set_style(CLI::App& app);

// What is wrong with the line that `app` refused; several words in the order in which they were typed.
std::string words_of(const CLI::App& app, const CLI::Error& error);

// Of a main whose line was refused, or asked for help: prints what there is to say, and where help is. The exit code.
int finish(const CLI::App& app, const CLI::Error& error);

// What a main does: `body`, whose exit code it returns. An exception, or standard output that could not be written, is
// said on standard error, and ends a program that went well otherwise with 1 or 6. Standard streams that are closed
// lead nowhere, or a pipe or socket would get their numbers and what is printed.
int run_main(const std::function<int()>& body);

// The option takes one of these words.
CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words);

}  // namespace wreath::command_line
