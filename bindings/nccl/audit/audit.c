// Makes any NCCL that a program opens, by name or by path, Wreath's: libwreath_nccl_audit.so, for LD_AUDIT. It runs
// inside the system's loader, in each program that inherits the variable, and so needs nothing but the C library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char kName[] = "libnccl.so.2";
static const char kVariable[] = "WREATH_NCCL_LIBRARY";

// Holds the library that takes the place of others; it lives as long as the process, as the loader wants it.
static char g_library[PATH_MAX];
// Says what is wrong with the library; empty where nothing is. It is printed once, when a program asks for NCCL: most
// programs never do.
static char g_trouble[PATH_MAX + 256];
static int g_told;

// Returns whether the file is libnccl.so, libnccl.so.2 or one such as libnccl.so.2.28.9, in any folder.
static int is_nccl(const char* file) {
  const char* slash = strrchr(file, '/');
  const char* name = slash == NULL ? file : slash + 1;
  const size_t base = strlen("libnccl.so");
  const size_t whole = strlen(kName);
  if (strncmp(name, kName, base) != 0) return 0;
  if (name[base] == '\0') return 1;
  return strncmp(name, kName, whole) == 0 && (name[whole] == '\0' || name[whole] == '.');
}

static void trouble(const char* why) {
  (void)snprintf(g_trouble, sizeof g_trouble,
                 "wreath: error: LD_AUDIT: %s: %s; programs get the NCCL that they ask for (%s names another file)\n",
                 g_library, why, kVariable);
}

// Finds the library's absolute path: programs change their folder.
static void find_library(void) {
  const char* named = secure_getenv(kVariable);
  char path[PATH_MAX] = "";
  Dl_info self;
  if (named != NULL && named[0] != '\0') {
    (void)snprintf(path, sizeof path, "%s", named);
  } else if (dladdr(g_library, &self) != 0 && strlen(self.dli_fname) + sizeof kName < sizeof path) {
    (void)snprintf(path, sizeof path, "%s", self.dli_fname);
    char* slash = strrchr(path, '/');
    (void)strcpy(slash == NULL ? path : slash + 1, kName);
  }
  if (realpath(path, g_library) != NULL) return;
  const int error = errno;
  (void)snprintf(g_library, sizeof g_library, "%s", path);
  trouble(strerror(error));
}

// Checks the file's kind. The loader would end a program that needs a file which is none of its own kind.
static void check_library(void) {
  unsigned char head[EI_NIDENT];
  const int file = open(g_library, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    trouble(strerror(errno));
    return;
  }
  const int native = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (read(file, head, sizeof head) != sizeof head || memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != native)
    trouble("is no shared library of this machine");
  (void)close(file);
}

unsigned la_version(unsigned version) {
  find_library();
  if (g_trouble[0] == '\0') check_library();
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

char* la_objsearch(const char* name, uintptr_t* cookie, unsigned flag) {
  (void)cookie;
  if (flag == LA_SER_ORIG && is_nccl(name)) {
    if (g_trouble[0] == '\0') return g_library;
    if (!g_told) (void)!write(STDERR_FILENO, g_trouble, strlen(g_trouble));
    g_told = 1;
  }
  return (char*)name;
}
