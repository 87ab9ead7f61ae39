// Implements the handles of a command line with CLI11.
#include "src/command_line/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <utility>

#include "src/command_line/program.hpp"
#include "src/command_line/style.hpp"

namespace wreath::command_line {
namespace {

// Describes the error, or names the words that are not known, in their order. CLI11 would name what is missing alone
// where a word is unknown, too, and would list several words from the last to the first.
std::string words_of(const CLI::App& app, const CLI::Error& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  const bool about_words = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                           dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!about_words || unknown.empty()) return error.what();
  return fmt::format("The following {} not expected: {}", unknown.size() > 1 ? "arguments were" : "argument was",
                     fmt::join(unknown, " "));
}

// Refuses the first word that is no subcommand where one is required. CLI11 would only say that a subcommand is
// missing.
void refuse_unknown(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    if (word.starts_with('-') || command->get_require_subcommand_min() == 0) return;
    const auto next = command->get_subcommands([&](const CLI::App* each) { return each->check_name(word); });
    if (next.empty()) throw CLI::ExtrasError({word});
    command = next.front();
  }
}

// Runs `parse`, which reads `words`, and returns how the line ends the program; nullopt where the program goes on.
std::optional<Ending> ending_of(const CLI::App& app, const std::vector<std::string>& words,
                                const std::function<void()>& parse) {
  try {
    refuse_unknown(app, words);
    parse();
  } catch (const CLI::Error& error) {
    if (error.get_exit_code() != 0) return Ending{2, words_of(app, error)};
    std::ostringstream text;
    app.exit(error, text, text);
    return Ending{0, text.str()};
  } catch (const UsageError& error) {
    return Ending{2, error.what()};
  }
  return std::nullopt;
}

}  // namespace

Option Option::type_name(const std::string& name) const { return Option(*option_->type_name(name)); }
Option Option::group(const std::string& heading) const { return Option(*option_->group(heading)); }
Option Option::required() const { return Option(*option_->required()); }
Option Option::needs(const std::string& other) const { return Option(*option_->needs(other)); }
Option Option::delimiter(char between) const { return Option(*option_->delimiter(between)); }
Option Option::one_each() const { return Option(*option_->type_size(1)->allow_extra_args(false)); }
Option Option::envname(const std::string& variable) const { return Option(*option_->envname(variable)); }
Option Option::capture_default_str() const { return Option(*option_->capture_default_str()); }
Option Option::check(const Check& check) const { return Option(*option_->check(check)); }

Option Option::one_of(const std::vector<std::string>& words) const {
  const auto wrong = [words](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return fmt::format("'{}' is unknown; known are {}", text, fmt::join(words, ", "));
  };
  return check(wrong).type_name(fmt::format("{}", fmt::join(words, "|")));
}

void Command::description(const std::string& text) const { app_->description(text); }
void Command::footer(const std::string& text) const { app_->footer(text); }

Command Command::add_subcommand(const std::string& name, const std::string& description) const {
  return Command(*app_->add_subcommand(name, description));
}

void Command::require_subcommand() const { app_->require_subcommand(1); }
bool Command::got_subcommand(const std::string& name) const { return app_->got_subcommand(name); }

void Command::takes_program() const {
  app_->prefix_command();
  // CLI11 passes the words after -- to the parent command, which may refuse them for other subcommands.
  app_->preparse_callback([app = app_](std::size_t) { app->get_parent()->allow_extras(); });
}

std::vector<std::string> Command::remaining() const { return app_->remaining(); }
std::vector<std::string> Command::after_dashes() const { return app_->get_parent()->remaining(); }

Option Command::add_option(const std::string& flags, std::string& target, const std::string& help) const {
  return Option(*app_->add_option(flags, target, help));
}
Option Command::add_option(const std::string& flags, std::vector<std::string>& target, const std::string& help) const {
  return Option(*app_->add_option(flags, target, help));
}
Option Command::add_option(const std::string& flags, int& target, const std::string& help) const {
  return Option(*app_->add_option(flags, target, help));
}
Option Command::add_option(const std::string& flags, const std::string& help) const {
  return Option(*app_->add_option(flags, help));
}
Option Command::add_flag(const std::string& flags, bool& target, const std::string& help) const {
  return Option(*app_->add_flag(flags, target, help));
}
Option Command::add_flag(const std::string& flags, const std::function<void()>& given, const std::string& help) const {
  return Option(*app_->add_flag_callback(flags, given, help));
}
Option Command::add_text(const std::string& flags, const std::function<void(const std::string& text)>& accept,
                         const std::string& help) const {
  return Option(*app_->add_option_function<std::string>(flags, accept, help));
}

Option Command::add_value(const std::string& flags, const Accept& accept, const std::function<std::string()>& shown,
                          const std::string& help) const {
  const auto accepted = [accept](const CLI::results_t& texts) {
    accept(texts);
    return true;
  };
  return Option(*app_->add_option(flags, accepted, help, false, shown));
}

Option Command::add_values(const std::string& flags, const Accept& accept, const std::string& help) const {
  const auto accepted = [accept](const CLI::results_t& texts) {
    accept(texts);
    return true;
  };
  return Option(*app_->add_option(flags, accepted, help)->expected(CLI::detail::expected_max_vector_size));
}

void Command::begin_group(const std::string& heading) const { app_->option_defaults()->group(heading); }
void Command::capture_defaults() const { app_->option_defaults()->always_capture_default(); }
std::size_t Command::count(const std::string& flag) const { return app_->count(flag); }

std::string Command::first_empty() const {
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) return option->get_name();
    }
  }
  return {};
}

Program::Program(const std::string& description, const std::string& name)
    : Program(std::make_unique<CLI::App>(description, name)) {}

Program::Program(std::unique_ptr<CLI::App> app) : Command(*app), owned_(std::move(app)) { set_style(*app_); }

Program::~Program() = default;

void Program::version(const std::string& text) const { app_->set_version_flag("--version", text); }
void Program::column_width(std::size_t columns) const { app_->get_formatter()->column_width(columns); }

std::optional<Ending> Program::read(const std::vector<std::string>& words) const {
  return ending_of(*app_, words, [&] { app_->parse(std::vector<std::string>(words.rbegin(), words.rend())); });
}

std::optional<Ending> Program::read(int argc, char** argv) const {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  // This overload of CLI11's parse takes the program's name, too.
  return ending_of(*app_, words, [&] { app_->parse(argc, argv); });
}

std::optional<int> Program::parse(int argc, char** argv) const {
  const std::optional<Ending> ending = read(argc, argv);
  if (!ending) return std::nullopt;
  if (ending->code == 0) {
    fmt::print("{}", ending->text);
    return 0;
  }
  complain_of_usage(fmt::format("{}\n`{} --help` explains the flags", ending->text, app_->get_name()));
  return ending->code;
}

std::vector<std::string> split(const std::string& text, char between) { return CLI::detail::split(text, between); }

}  // namespace wreath::command_line
