// Gives the parts of the stand-in for libfabric the real one.
#pragma once

#include <dlfcn.h>
#include <rdma/fabric.h>

namespace wreath::test {

// Returns the real library's function of that name.
template <typename Function>
Function* real(Function* /*own*/, const char* name) {
  static void* const library = ::dlopen(WREATH_REAL_LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// Returns the real name of the adapter that is offered several times; null where none is.
char* offered_adapter();

}  // namespace wreath::test
