// This file provides the text to train on where none is given: this project's own sources.
#pragma once

#include <string>

#include "wreath/result.hpp"

namespace wreath::gpt {

// Returns the headers and sources of the library under `folder`, in the order of their paths. The error is Unavailable
// where they are gone.
Result<std::string> project_sources(const std::string& folder);

}  // namespace wreath::gpt
