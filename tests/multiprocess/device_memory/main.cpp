// Roles and tests of this program.
#include "tests/support/processes.hpp"

WREATH_TEST_MAIN
