// Tests of elastic runs, and the roles of the processes that they kill.
#include "tests/support/processes.hpp"

WREATH_TEST_MAIN
