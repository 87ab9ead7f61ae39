// Tests of memory, and the roles of the processes that they measure.
#include "tests/support/processes.hpp"

WREATH_TEST_MAIN
