// Checks the values of flags, as command_line::Check: each returns what is wrong with a value, or nothing. The program
// puts the flag in front.
#pragma once

#include <string>

namespace wreath::perf {

// Returns a text such as "'foo' is unknown; known are inproc, shm, tcp".
std::string check_transport(const std::string& value);

// Returns a text such as "a/b.json cannot be written: No such file or directory". It leaves no new file.
std::string check_output_file(const std::string& path);

// Returns a text such as "'3Q' is not a size; ...".
std::string check_size(const std::string& value);

}  // namespace wreath::perf
