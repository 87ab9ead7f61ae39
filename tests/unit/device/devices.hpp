// Lists the devices of this machine that keep the contract.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/device/library_device.hpp"

namespace wreath::test {

// Returns the host device, and the first two devices of CUDA where it is present.
inline std::vector<LibraryDevice*> devices() {
  std::vector<LibraryDevice*> all = {&static_cast<LibraryDevice&>(host_device())};
  const auto found = cuda_devices();
  for (int i = 0; found && i < std::min(*found, 2); ++i) {
    all.push_back(&static_cast<LibraryDevice&>(*cuda_device(i).value()));
  }
  return all;
}

inline std::string name_of(const testing::TestParamInfo<LibraryDevice*>& info) {
  std::string name(info.param->name());
  std::erase(name, ':');
  return name;
}

}  // namespace wreath::test
