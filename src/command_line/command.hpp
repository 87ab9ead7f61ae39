// A program's command line, read by CLI11. All programs use these handles. Only command.cpp and style.cpp include
// CLI11's header, which takes seconds to compile.
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

// Says what is wrong with the line, in words for its user. A function that reads a value may throw it.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns what is wrong with a value, or nothing. The message puts the option's name in front.
using Check = std::function<std::string(const std::string& value)>;

// A handle of an option. Each call returns the handle, so that calls form a chain.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  // Names the value's type in the help.
  Option type_name(const std::string& name) const;
  // Sets the heading of the option in the help. An option with an empty heading is not shown.
  Option group(const std::string& heading) const;
  Option required() const;
  // Requires that the option `other` is given, too.
  Option needs(const std::string& other) const;
  // Sets the character between several values in one word.
  Option delimiter(char between) const;
  // Requires the option's name in front of each of several values.
  Option one_each() const;
  Option envname(const std::string& variable) const;
  // Makes the help show the present value.
  Option capture_default_str() const;
  Option check(const Check& check) const;
  Option one_of(const std::vector<std::string>& words) const;

 private:
  CLI::Option* option_;
};

// A handle of a program's line or of a subcommand's line.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  void description(const std::string& text) const;
  void footer(const std::string& text) const;
  Command add_subcommand(const std::string& name, const std::string& description) const;
  void require_subcommand() const;
  bool got_subcommand(const std::string& name) const;
  // Takes the words from the first one that is no option on as another program's line.
  void takes_program() const;
  // Returns the other program's line.
  std::vector<std::string> remaining() const;
  // Returns the words behind `--`.
  std::vector<std::string> after_dashes() const;

  // Adds an option with a value; an option with a list takes several values. A flag without the form `--name` adds a
  // value that is known by its place on the line.
  Option add_option(const std::string& flags, std::string& target, const std::string& help = "") const;
  Option add_option(const std::string& flags, std::vector<std::string>& target, const std::string& help = "") const;
  Option add_option(const std::string& flags, int& target, const std::string& help = "") const;
  // Adds an option whose values are only counted.
  Option add_option(const std::string& flags, const std::string& help) const;
  Option add_flag(const std::string& flags, bool& target, const std::string& help = "") const;
  Option add_flag(const std::string& flags, const std::function<void()>& given, const std::string& help) const;
  // Adds an option whose value `accept` gets. `accept` throws UsageError where it does not understand the value.
  Option add_text(const std::string& flags, const std::function<void(const std::string& text)>& accept,
                  const std::string& help) const;
  // Receives all values of an option, and throws UsageError where it does not understand one.
  using Accept = std::function<void(const std::vector<std::string>& texts)>;
  // Adds an option whose value `accept` gets. `shown` gives the present value for the help.
  Option add_value(const std::string& flags, const Accept& accept, const std::function<std::string()>& shown,
                   const std::string& help) const;
  // Adds an option that takes several values, which `accept` gets together.
  Option add_values(const std::string& flags, const Accept& accept, const std::string& help) const;

  // Sets the heading in the help for options that are added later.
  void begin_group(const std::string& heading) const;
  // Makes the help show the present values of options that are added later.
  void capture_defaults() const;

  // Returns how often the flag was given.
  std::size_t count(const std::string& flag) const;
  // Returns the name of the first option whose value is empty; an empty text where there is none.
  std::string first_empty() const;

 protected:
  CLI::App* app_;
};

// The end of a program by its line: the help or the version to print, or an error. The text says what is wrong with the
// line where the code is not 0.
struct Ending {
  int code = 0;
  std::string text;
};

// The line of a whole program. Its help has lines of 100 columns; a text with lines of its own may have 120.
class Program : public Command {
 public:
  explicit Program(const std::string& description, const std::string& name = "");
  ~Program();

  // Sets the text that --version prints.
  void version(const std::string& text) const;
  void column_width(std::size_t columns) const;
  // Reads the words, which begin after the program's name. Returns nullopt where the program goes on.
  std::optional<Ending> read(const std::vector<std::string>& words) const;
  // Reads the line of main(). Returns nullopt where the program goes on.
  std::optional<Ending> read(int argc, char** argv) const;
  // Reads the line, and prints the help, the version or the error, with where help is. Returns the exit code, or
  // nullopt where the program goes on.
  std::optional<int> parse(int argc, char** argv) const;

 private:
  explicit Program(std::unique_ptr<CLI::App> app);

  std::unique_ptr<CLI::App> owned_;
};

// Splits "a,b" into "a" and "b" at each `between`.
std::vector<std::string> split(const std::string& text, char between);

}  // namespace wreath::command_line
