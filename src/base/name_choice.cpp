// Reads choices among names: see name_choice.hpp.
#include "src/base/name_choice.hpp"

#include <algorithm>
#include <charconv>

namespace wreath {
namespace {

// Takes ":1" off the end of `entry`. Returns whether the entry is for `port`.
bool is_for_port(std::string_view& entry, int port) {
  const std::size_t colon = entry.rfind(':');
  if (port == 0 || colon == std::string_view::npos) return true;
  int wanted = 0;
  const std::string_view digits = entry.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), wanted);
  entry.remove_suffix(entry.size() - colon);
  return error == std::errc() && end == digits.data() + digits.size() && wanted == port;
}

}  // namespace

bool admits(std::string_view choice, std::string_view name, int port) {
  if (choice.empty()) return true;
  const bool except = choice.starts_with('^');
  if (except) choice.remove_prefix(1);
  const bool whole = choice.starts_with('=');
  if (whole) choice.remove_prefix(1);
  bool named = false;
  while (!choice.empty()) {
    std::string_view one = choice.substr(0, choice.find(','));
    choice.remove_prefix(std::min(choice.size(), one.size() + 1));
    if (!is_for_port(one, port) || one.empty()) continue;
    named = named || (whole ? name == one : name.starts_with(one));
  }
  return named != except;
}

}  // namespace wreath
