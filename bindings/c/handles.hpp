// Defines what the C API's handles hold.
#pragma once

#include "wreath/group.hpp"
#include "wreath/wreath.h"
#include "wreath/wreath.hpp"

// C programs see these names.
// NOLINTBEGIN(readability-identifier-naming)
struct wreath_communicator {
  wreath::Communicator communicator;
};
struct wreath_work {
  wreath::Work work;
};
struct wreath_group {
  wreath::Group group;
};
// NOLINTEND(readability-identifier-naming)
