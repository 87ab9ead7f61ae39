// A program's command line, read by CLI11. CLI11's header takes seconds to compile wherever it is included: command.cpp
// and style.cpp alone do, and all programs use these handles.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace wreath::command_line {

// Says what is wrong with the line, as its user reads it. A function that reads a value may throw it.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns what is wrong with a value, or nothing. The message puts the option's name in front.
using Check = std::function<std::string(const std::string& value)>;

// A handle; each call returns it, so that calls make a chain.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option type_name(const std::string& name) const;  // of the value, in the help
  Option group(const std::string& heading) const;   // in the help; empty: it is not shown
  Option required() const;
  Option needs(const std::string& other) const;  // an option that must be given, too
  Option delimiter(char between) const;          // of several values in one word
  Option one_each() const;                       // of several values each has the option in front
  Option envname(const std::string& variable) const;
  Option capture_default_str() const;  // the help shows the present value
  Option check(const Check& check) const;
  Option one_of(const std::vector<std::string>& words) const;

 private:
  CLI::Option* option_;
};

// A handle of a program's line, or of a subcommand's.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  void description(const std::string& text) const;
  void footer(const std::string& text) const;
  Command add_subcommand(const std::string& name, const std::string& description) const;
  void require_subcommand() const;
  bool got_subcommand(const std::string& name) const;
  // The words from the first one that is no option on are another program's line.
  void takes_program() const;
  std::vector<std::string> remaining() const;     // that line
  std::vector<std::string> after_dashes() const;  // what stands behind `--`

  // An option with a value. One with a list takes several. Without a name of the form `--name` it has no name on the
  // line.
  Option add_option(const std::string& flags, std::string& target, const std::string& help = "") const;
  Option add_option(const std::string& flags, std::vector<std::string>& target, const std::string& help = "") const;
  Option add_option(const std::string& flags, int& target, const std::string& help = "") const;
  Option add_option(const std::string& flags, const std::string& help) const;  // the value is only counted
  Option add_flag(const std::string& flags, bool& target, const std::string& help = "") const;
  Option add_flag(const std::string& flags, const std::function<void()>& given, const std::string& help) const;
  // `accept` gets the value, and throws UsageError where it does not understand it.
  Option add_text(const std::string& flags, const std::function<void(const std::string& text)>& accept,
                  const std::string& help) const;
  // The same; `shown` gives the present value for the help.
  using Accept = std::function<void(const std::vector<std::string>& texts)>;
  Option add_value(const std::string& flags, const Accept& accept, const std::function<std::string()>& shown,
                   const std::string& help) const;
  // The same for several values.
  Option add_values(const std::string& flags, const Accept& accept, const std::string& help) const;

  // These apply to options that are added later: a heading in the help, and that the help shows present values.
  void begin_group(const std::string& heading) const;
  void capture_defaults() const;

  std::size_t count(const std::string& flag) const;  // how often it was given
  std::string first_empty() const;                   // the first option whose value is empty; empty: there is none

 protected:
  CLI::App* app_;
};

// How a line ends a program: with a help or version to print, or, where the code is not 0, what is wrong with the line.
struct Ending {
  int code = 0;
  std::string text;
};

// The line of a whole program. Help comes in lines of 100 columns, 120 where a text has lines of its own.
class Program : public Command {
 public:
  explicit Program(const std::string& description, const std::string& name = "");
  ~Program();

  void version(const std::string& text) const;  // what --version prints
  void column_width(std::size_t columns) const;
  // Nothing: the line was read, and the program goes on.
  std::optional<Ending> read(const std::vector<std::string>& words) const;  // without the program's name
  std::optional<Ending> read(int argc, char** argv) const;
  // The same, and prints what there is to say, and where help is. The exit code.
  std::optional<int> parse(int argc, char** argv) const;

 private:
  explicit Program(std::unique_ptr<CLI::App> app);

  std::unique_ptr<CLI::App> owned_;
};

// "a,b" as "a" and "b".
std::vector<std::string> split(const std::string& text, char between);

}  // namespace wreath::command_line
