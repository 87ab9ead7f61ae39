// Extends CLI11's formatter to break long lines.
#include "src/command_line/style.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

namespace wreath::command_line {
namespace {

constexpr std::size_t kColumns = 100;
// The width of descriptions, which have lines of their own.
constexpr std::size_t kMostColumns = 120;
// The least width of a description, however wide the names are.
constexpr std::size_t kLeastWords = 40;

// Breaks `text` into lines of at most `width` characters, and keeps its own line breaks.
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
  // Leaves out the rules between options: messages state them, and descriptions do where they matter.
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
    std::string all;  // without repeated empty lines
    for (const char each : text) {
      if (each != '\n' || !all.ends_with("\n\n")) all += each;
    }
    return all;
  }

 private:
  std::size_t words() const { return std::max(kColumns - std::min(kColumns, column_width_), kLeastWords); }
};

}  // namespace

void set_style(CLI::App& app) { app.formatter(std::make_shared<Style>()); }

}  // namespace wreath::command_line
