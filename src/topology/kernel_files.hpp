// The small files of /sys and /proc: one value or one list each, any of which may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wreath {

// The first line of `path`, printable, without blanks at its ends; empty where there is none.
std::string line_of(const std::string& path);

// The whole number that the file begins with, "0x1f" included; nullopt where there is none.
std::optional<std::int64_t> number_of(const std::string& path);

// The rest of the line "KEY: value" (or "KEY value") of a file, printable, without blanks at its ends.
std::string field_of(const std::string& path, std::string_view key);

// "0-3,8,10-11" as 0 1 2 3 8 10 11; what is not such a list gives nothing.
std::vector<int> parse_list(std::string_view text);
std::vector<int> list_of(const std::string& path);

// Names in a folder, numbers in names compared as numbers: node2 before node10.
std::vector<std::string> entries_of(const std::string& folder);

// The last part of what the link `path` names; empty where it is none.
std::string link_name(const std::string& path);

}  // namespace wreath
