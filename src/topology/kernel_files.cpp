// Reads small files of the kernel: see kernel_files.hpp.
#include "src/topology/kernel_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "src/base/printable.hpp"
#include "src/base/text_file.hpp"
#include "wreath/topology.hpp"

namespace wreath {
namespace {

constexpr int kMostProcessors = 1 << 20;
constexpr std::size_t kMostLineBytes = 64 << 10;
constexpr std::size_t kMostBytes = 4 << 20;  // /proc/cpuinfo has 2 KiB a processor

// Returns the text of a file; empty where it cannot be read.
std::string text_of(const std::string& path, std::size_t most_bytes) {
  auto text = read_file(path, most_bytes);
  return text ? *std::move(text) : std::string();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes the number at the front of `text` and returns it; -1 where there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value >= kMostProcessors) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool in_natural_order(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const int left = take_number(a);
      const int right = take_number(b);
      if (left != right) return left < right;
      // Digits beyond what a number holds give -1.
      if (left < 0) break;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a < b;
}

}  // namespace

std::string line_of(const std::string& path) {
  const std::string text = text_of(path, kMostLineBytes);
  return printable(trimmed(std::string_view(text).substr(0, text.find('\n'))));
}

std::optional<std::int64_t> number_of(const std::string& path) {
  const std::string line = line_of(path);
  const bool hexadecimal = line.starts_with("0x");
  const char* const first = line.data() + (hexadecimal ? 2 : 0);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(first, line.data() + line.size(), value, hexadecimal ? 16 : 10);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::string field_of(const std::string& path, std::string_view key) {
  std::istringstream text(text_of(path, kMostBytes));
  for (std::string line; std::getline(text, line);) {
    std::string_view rest = trimmed(line);
    if (!rest.starts_with(key)) continue;
    rest.remove_prefix(key.size());
    if (rest.empty() || (rest.front() != ':' && rest.front() != ' ' && rest.front() != '\t')) continue;
    rest = trimmed(rest);
    if (rest.starts_with(':')) rest = trimmed(rest.substr(1));
    return printable(rest);
  }
  return {};
}

std::vector<int> parse_list(std::string_view text) {
  std::vector<int> numbers;
  text = trimmed(text);
  while (!text.empty()) {
    const int first = take_number(text);
    int last = first;
    if (text.starts_with("-")) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    const bool more = text.starts_with(",");
    if (first < 0 || last < first || (!text.empty() && !more)) return {};
    if (numbers.size() + static_cast<std::size_t>(last - first) >= kMostProcessors) return {};
    for (int number = first; number <= last; ++number) numbers.push_back(number);
    if (more) text.remove_prefix(1);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::vector<int> list_of(const std::string& path) { return parse_list(line_of(path)); }

std::string format_list(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    const char* const comma = text.empty() ? "" : ",";
    text += end - i == 1 ? fmt::format("{}{}", comma, numbers[i])
                         : fmt::format("{}{}-{}", comma, numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code gone;
  for (std::filesystem::directory_iterator it(folder, gone), end; !gone && it != end; it.increment(gone)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end(), in_natural_order);
  return names;
}

std::string link_name(const std::string& path) {
  std::error_code none;
  const std::filesystem::path target = std::filesystem::read_symlink(path, none);
  return none ? std::string() : printable(target.filename().string());
}

}  // namespace wreath
