// Which libnccl.so.2 a program gets: it prints the version. `loader`: of the one it is linked with; `loader NAME`: of
// the one that dlopen(NAME) gives. Compiled with DECOY it is another libnccl.so.2 instead.
#include <dlfcn.h>
#include <stdio.h>

int ncclGetVersion(int* version);

#ifdef DECOY
int ncclGetVersion(int* version) {
  *version = 1;
  return 0;
}
#else
int main(int count, char** arguments) {
  int (*version_of)(int*) = ncclGetVersion;
  int version = 0;
  if (count > 1) {
    void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    *(void**)&version_of = library == NULL ? NULL : dlsym(library, "ncclGetVersion");
    if (version_of == NULL) fprintf(stderr, "%s\n", dlerror());
  }
  if (version_of == NULL || version_of(&version) != 0) return 1;
  printf("%d\n", version);
  return 0;
}
#endif
