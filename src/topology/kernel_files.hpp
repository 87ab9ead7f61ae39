// Reads the small files of /sys and /proc: one value or one list each, any of which may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wreath {

// Returns the first line of `path`, printable, without blanks at its ends; empty where there is none.
std::string line_of(const std::string& path);

// Returns the whole number that the file begins with, "0x1f" included; nullopt where there is none.
std::optional<std::int64_t> number_of(const std::string& path);

// Returns the rest of the line "KEY: value" (or "KEY value") of a file, printable, without blanks at its ends.
std::string field_of(const std::string& path, std::string_view key);

// Reads "0-3,8,10-11" as 0 1 2 3 8 10 11; text that is not such a list gives nothing.
std::vector<int> parse_list(std::string_view text);
// Reads such a list from a file.
std::vector<int> list_of(const std::string& path);

// Returns the names in a folder. Numbers in names are compared as numbers: node2 is before node10.
std::vector<std::string> entries_of(const std::string& folder);

// Returns the last part of what the link `path` names; empty where it is none.
std::string link_name(const std::string& path);

}  // namespace wreath
