// A program in C outside the tree, in which all ranks get the sum.
#include <stdio.h>
#include <wreath/wreath.h>

int main(void) {
  wreath_communicator* all = NULL;
  float values[4] = {1, 1, 1, 1};
  int code = wreath_communicator_from_environment(NULL, &all);
  if (code == WREATH_OK) code = wreath_all_reduce(all, values, values, 4, WREATH_FLOAT32, WREATH_SUM, NULL);
  if (code != WREATH_OK) {
    fprintf(stderr, "wreath: error: %s\n", wreath_last_error());
    return wreath_code_exit(code);
  }
  printf("C: %g of %d\n", values[3], wreath_communicator_ranks(all));
  wreath_communicator_destroy(all);
  return 0;
}
