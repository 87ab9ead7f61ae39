// This file finds the device that a rank computes on.
#pragma once

#include <string>

#include "wreath/device.hpp"
#include "wreath/environment.hpp"

namespace wreath::gpt {

// Finds the device for `name`, the value of --device; "" gives null. "cuda" is the GPU of the rank's number among those
// of its host, modulo the number that this process sees. The error is InvalidArgument for another name, and
// Unavailable, with the reason, where there is no such GPU.
Result<Device*> find_device(const std::string& name, const EnvironmentJob& job);

}  // namespace wreath::gpt
