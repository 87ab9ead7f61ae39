// Which device a rank computes on.
#pragma once

#include <string>

#include "wreath/device.hpp"
#include "wreath/environment.hpp"

namespace wreath::gpt {

// `name` as --device has it: "cuda" is the GPU of the rank's number among those of its host, modulo how many this
// process sees; null for "". InvalidArgument: another name; Unavailable: no such GPU, and why.
Result<Device*> find_device(const std::string& name, const EnvironmentJob& job);

}  // namespace wreath::gpt
