// Checks of flags' values as command_line::Check: what is wrong with a value, or nothing. The flag is put in front.
#pragma once

#include <string>

namespace wreath::perf {

// "'foo' is unknown; known are inproc, shm, tcp".
std::string check_transport(const std::string& value);

// "a/b.json cannot be written: No such file or directory". Leaves no new file.
std::string check_output_file(const std::string& path);

// "'3Q' is not a size; ...".
std::string check_size(const std::string& value);

}  // namespace wreath::perf
