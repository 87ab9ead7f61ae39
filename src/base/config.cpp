// Reads the environment: see config.hpp.
#include "src/base/config.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <optional>

#include "src/base/log.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < kSettings.size(); ++i) {
    if (kSettings[i].setting != static_cast<Setting>(i)) return false;
  }
  return kSettings.back().setting == Setting::Home;
}
static_assert(in_order(), "kSettings must list every Setting in order");

Error bad_setting(Setting setting, std::string_view value, std::string_view expected) {
  const std::string_view shown = setting == Setting::Key ? std::string_view("(hidden)") : value;
  if (value.empty()) {
    return {ErrorCode::InvalidArgument, fmt::format("{} is not set; it must be {}", row(setting).name, expected)};
  }
  return {ErrorCode::InvalidArgument, fmt::format("{}={} must be {}", row(setting).name, shown, expected)};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    current[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = previous[j] + (a[i] == b[j] ? 0 : 1);
      current[j + 1] = std::min({replaced, previous[j + 1] + 1, current[j] + 1});
    }
    previous.swap(current);
  }
  return previous.back();
}

std::optional<std::string_view> nearest_name(std::string_view unknown) {
  const SettingRow* nearest = nullptr;
  // A name that takes more than 3 edits is no slip of the keyboard.
  std::size_t smallest = 4;
  for (const SettingRow& candidate : kSettings) {
    const std::size_t distance = edit_distance(unknown, candidate.name);
    if (distance < smallest) {
      smallest = distance;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? std::nullopt : std::optional(nearest->name);
}

bool known(std::string_view name) {
  return std::any_of(kSettings.begin(), kSettings.end(), [&](const SettingRow& r) { return r.name == name; });
}

std::string about_unknown(std::string_view name) {
  for (const FormerSetting& former : kFormerSettings) {
    if (former.name == name) return fmt::format("{} is not a setting any more; use {}", name, former.replacement);
  }
  const std::optional<std::string_view> nearest = nearest_name(name);
  if (nearest) return fmt::format("{} is not a setting; did you mean {}?", name, *nearest);
  return fmt::format("{} is not a setting; docs/formats.md lists them all", name);
}

// Returns the names of the environment's variables that start with WREATH_, sorted.
std::vector<std::string> wreath_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("WREATH_")) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Substitutes {
  std::mutex mutex;
  std::array<std::string, kSettings.size()> values;
};

// Returns an object that is never destroyed: threads read settings while the process ends.
Substitutes& substitutes() {
  static Substitutes* const all = new Substitutes;  // NOLINT(cppcoreguidelines-*): never deleted
  return *all;
}

std::optional<std::string> value_of(Setting setting) {
  const char* value = std::getenv(row(setting).name.data());
  if (value != nullptr && *value != 0) return value;
  const std::lock_guard lock(substitutes().mutex);
  const std::string& instead = substitutes().values[static_cast<std::size_t>(setting)];
  return instead.empty() ? std::nullopt : std::optional(instead);
}

}  // namespace

bool is_set(Setting setting) { return value_of(setting).has_value(); }

std::string setting_text(Setting setting) { return value_of(setting).value_or(std::string(row(setting).fallback)); }

void substitute(Setting setting, std::string value) {
  const std::lock_guard lock(substitutes().mutex);
  substitutes().values[static_cast<std::size_t>(setting)] = std::move(value);
}

Result<std::int64_t> setting_integer(Setting setting) {
  const SettingRow& r = row(setting);
  const std::string text = setting_text(setting);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc() && end == text.data() + text.size();
  if (!number || value < r.minimum || value > r.maximum) {
    return bad_setting(setting, text, fmt::format("a whole number from {} to {}", r.minimum, r.maximum));
  }
  return value;
}

Result<std::uint64_t> setting_bytes(Setting setting) {
  const SettingRow& r = row(setting);
  const std::string text = setting_text(setting);
  const auto minimum = static_cast<std::uint64_t>(r.minimum);
  const auto maximum = static_cast<std::uint64_t>(r.maximum);
  const Result<std::uint64_t> value = parse_bytes(text);
  if (!value || *value < minimum || *value > maximum) {
    return bad_setting(
        setting, text,
        fmt::format("a size from {} to {} (K, M, G, T are binary)", format_bytes(minimum), format_bytes(maximum)));
  }
  return *value;
}

Result<bool> setting_boolean(Setting setting) {
  std::string text = setting_text(setting);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  return bad_setting(setting, setting_text(setting), "1 or 0");
}

std::string home_directory() {
  if (std::string home = setting_text(Setting::Home); !home.empty()) return home;
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return found->pw_dir;
}

std::vector<std::string> unknown_settings() {
  std::vector<std::string> sentences;
  for (const std::string& name : wreath_variables()) {
    if (!known(name)) sentences.push_back(about_unknown(name));
  }
  return sentences;
}

void warn_unknown_settings() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& sentence : unknown_settings()) log_warning("{}", sentence);
  });
}

}  // namespace wreath
