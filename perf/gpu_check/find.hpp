// Tools of CUDA's toolkit on this machine.
#pragma once

#include <string>

namespace wreath::perf {

// compute-sanitizer: `named`, or where that is empty the first of PATH and of the toolkit's usual folders. Empty: none.
std::string find_sanitizer(const std::string& named);

}  // namespace wreath::perf
