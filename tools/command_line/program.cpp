// CLI11's formatter with lines broken, and its errors in our words.
#include "tools/command_line/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath::command_line {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kMostColumns = 120;  // of descriptions, which have lines of their own
constexpr std::size_t kLeastWords = 40;    // of a description, however wide the names are

// `text` in lines of at most `width`; lines that it has stay.
std::string wrapped(std::string_view text, std::size_t width) {
  std::string all;
  for (;;) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size());
    while (line.size() > width) {
      std::size_t at = line.rfind(' ', width);
      if (at == std::string_view::npos) at = std::min(line.find(' '), line.size());
      all.append(line.substr(0, at)).append(at < line.size() ? "\n" : "");
      line.remove_prefix(std::min(at + 1, line.size()));
    }
    all.append(line);
    if (text.empty()) return all;
    all += '\n';
    text.remove_prefix(1);
  }
}

class Style final : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override {
    return wrapped(CLI::Formatter::make_description(app), kMostColumns);
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option), words());
  }
  // The rules between options are told by messages, and by the description where they matter.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || option->get_type_name().empty()) return {};
    std::string text = " " + get_label(option->get_type_name());
    if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
    const bool several = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    return text + (several && !text.ends_with("...") ? " ..." : "");
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::string text;
    for (const std::string& line : CLI::detail::split(wrapped(command->get_description(), words()), '\n')) {
      const std::string name = text.empty() ? "  " + command->get_display_name(true) : std::string();
      text += fmt::format("{:<{}}{}\n", name, column_width_, line);
    }
    return text;
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = CLI::Formatter::make_usage(app, name);
    if (app->get_prefix_command()) text.insert(text.find_last_not_of('\n') + 1, " [--] CMD [ARGS...]");
    return text;
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const std::string text = CLI::Formatter::make_help(app, name, mode);
    std::string all;  // without the second of two empty lines
    for (const char each : text) {
      if (each != '\n' || !all.ends_with("\n\n")) all += each;
    }
    return all;
  }

 private:
  std::size_t words() const { return std::max(kColumns - std::min(kColumns, column_width_), kLeastWords); }
};

void open_standard_streams() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = ::open("/dev/null", O_RDWR);
  if (opened > STDERR_FILENO) (void)::close(opened);
}

// Not by fmt::print, which would throw where standard error is lost, too.
void complain(const std::string& text) { (void)std::fputs(fmt::format("wreath: error: {}\n", text).c_str(), stderr); }

int output_lost(const std::string& why) {
  complain("standard output: " + why);
  return exit_code(ErrorCode::System);
}

}  // namespace

void set_style(CLI::App& app) { app.formatter(std::make_shared<Style>()); }

// Of what is missing and what is not known, CLI11 names the first alone; of several words the last one first.
std::string words_of(const CLI::App& app, const CLI::Error& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  const bool about_words = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                           dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!about_words || unknown.empty()) return error.what();
  return fmt::format("The following {} not expected: {}", unknown.size() > 1 ? "arguments were" : "argument was",
                     fmt::join(unknown, " "));
}

int finish(const CLI::App& app, const CLI::Error& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  fmt::print(stderr, "wreath: error: {}\n`{} --help` explains the flags\n", words_of(app, error), app.get_name());
  return 2;
}

int run_main(const std::function<int()>& body) {
  open_standard_streams();
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return output_lost(std::strerror(errno));
    complain(error.what());
    return 1;
  }
  if (std::fflush(stdout) != 0) return code != 0 ? code : output_lost(std::strerror(errno));
  return code != 0 || std::ferror(stdout) == 0 ? code : output_lost("not all of it could be written");
}

CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words) {
  const auto wrong = [words](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return fmt::format("'{}' is unknown; known are {}", text, fmt::join(words, ", "));
  };
  return option->check(CLI::Validator(wrong, ""))->type_name(fmt::format("{}", fmt::join(words, "|")));
}

}  // namespace wreath::command_line
