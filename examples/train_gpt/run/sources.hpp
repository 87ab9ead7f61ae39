// The text to train on where none is given: this project's own sources.
#pragma once

#include <string>

#include "wreath/result.hpp"

namespace wreath::gpt {

// Headers and sources of the library under `folder`, in the order of their paths. Unavailable where they are gone.
Result<std::string> project_sources(const std::string& folder);

}  // namespace wreath::gpt
