// Prints the version and the file of the libnccl.so.2 that a program gets. `loader` takes the one that it is linked
// with, `loader NAME` the one that dlopen(NAME) gives. With a further word it then waits for the end of its input.
// Compiled with DECOY this file is another libnccl.so.2 instead. Compiled with BY_NAME it is a program that is linked
// with none.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int ncclGetVersion(int* version);

#ifdef DECOY
const char kVersion[] = "NCCL version 2.99.1+cuda13.0";
int ncclGetVersion(int* version) {
  *version = 1;
  return 0;
}
#else
#ifdef BY_NAME
#define LINKED NULL
#else
#define LINKED ncclGetVersion
#endif
int main(int count, char** arguments) {
  int (*version_of)(int*) = LINKED;
  int version = 0;
  if (count > 1) {
    void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    *(void**)&version_of = library == NULL ? NULL : dlsym(library, "ncclGetVersion");
    if (version_of == NULL) fprintf(stderr, "%s\n", dlerror());
  }
  if (version_of == NULL || version_of(&version) != 0) return 1;
  Dl_info from = {0};
  dladdr(*(void**)&version_of, &from);
  printf("%d %s\n", version, from.dli_fname);
  if (count > 2) (void)(fflush(stdout) + getchar());
  return 0;
}
#endif
