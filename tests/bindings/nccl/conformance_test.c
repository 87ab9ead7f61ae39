// The test calls every function of nccl.h, also with wrong arguments: `conformance_test
// processes|threads|pairs|group|all|host RANKS`. It uses only nccl.h, so that it can also be compiled with another
// nccl.h.
#include <stdlib.h>

#include "tests/bindings/nccl/tests.h"

static void all_tests(Local* local) {
  const Body parts[] = {test_questions,
                        test_collectives,
                        test_types,
                        test_operators,
                        test_messages,
                        test_groups,
                        test_memory,
                        test_splits,
                        test_configs,
                        test_wrong_arguments,
                        test_shrinks,
                        test_revoke,
                        test_inits,
                        test_non_blocking,
                        test_device_interface,
                        test_jobs_of_one_parent,
                        test_jobs_of_several_parents,
                        test_ends_in_groups,
                        test_non_blocking_jobs};
  for (size_t part = 0; part < sizeof parts / sizeof *parts; ++part) parts[part](local);
}

int main(int count, char** arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: %s processes|threads|pairs|group|all|host RANKS\n", arguments[0]);
    return 2;
  }
  const int result = run_ranks(arguments[1], atoi(arguments[2]), all_tests);
  if (result == 0) printf("%s ranks as %s: all well\n", arguments[2], arguments[1]);
  return result;
}
