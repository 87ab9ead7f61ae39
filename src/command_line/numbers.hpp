// Options that take numbers, for every program with a command line. A text that is no number or is out of range is
// refused in the same words everywhere. They are words such as "--ranks x: not a whole number from 1 to 4096".
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "src/command_line/command.hpp"

namespace wreath::command_line {

// The range of a number. Both ends belong to it, and NaN belongs to no range.
template <typename Number>
struct NumberRange {
  Number least = std::numeric_limits<Number>::lowest();
  Number most = std::numeric_limits<Number>::max();
};

// Returns words such as "not a whole number from 1 to 4096". Leaves out an end that the type alone gives, unless `all`
// is true.
template <typename Number>
std::string range_words(const NumberRange<Number>& range, bool all) {
  const std::string_view kind = std::is_integral_v<Number> ? "a whole number" : "a number";
  const bool low = std::is_unsigned_v<Number> || range.least != std::numeric_limits<Number>::lowest();
  if (all || range.most != std::numeric_limits<Number>::max())
    return fmt::format("not {} from {} to {}", kind, range.least, range.most);
  return low ? fmt::format("not {} of at least {}", kind, range.least) : fmt::format("not {}", kind);
}

// Returns the number that the whole of `text` is. Throws UsageError, which names the option, where it is none of the
// range.
template <typename Number>
Number parse_number(std::string_view option, const std::string& text, const NumberRange<Number>& range) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  const bool read = error == std::errc() && stopped == end;
  if (read && number >= range.least && number <= range.most) return number;
  const bool too_large = error == std::errc::result_out_of_range;
  throw UsageError(fmt::format("{} {}: {}", option, text.empty() ? "''" : text, range_words(range, too_large)));
}

// Returns the name that messages use, which is the first of "-n,--ranks".
inline std::string first_name(std::string_view flags) { return std::string(flags.substr(0, flags.find(','))); }

// Returns the number as the help shows it.
template <typename Number>
std::string shown(Number number) {
  return fmt::format(fmt::runtime(std::is_floating_point_v<Number> ? "{:g}" : "{}"), number);
}

// Adds an option that takes one number. Its help shows the present value where the program captures defaults.
template <typename Number>
Option add_number(const Command& command, const std::string& flags, Number& target,
                  const NumberRange<std::type_identity_t<Number>>& range, const std::string& help) {
  const auto accept = [&target, range, name = first_name(flags)](const std::vector<std::string>& texts) {
    target = parse_number(name, texts.front(), range);
  };
  return command
      .add_value(
          flags, accept, [&target] { return shown(target); }, help)
      .type_name("N");
}

// Adds an option that takes several numbers: `--ranks 2 4`, or with a delimiter `--ranks 2,4`.
template <typename Number>
Option add_numbers(const Command& command, const std::string& flags, std::vector<Number>& target,
                   const NumberRange<std::type_identity_t<Number>>& range, const std::string& help) {
  const auto accept = [&target, range, name = first_name(flags)](const std::vector<std::string>& texts) {
    target.clear();
    for (const std::string& text : texts) target.push_back(parse_number(name, text, range));
  };
  return command.add_values(flags, accept, help).type_name("N ...");
}

}  // namespace wreath::command_line
