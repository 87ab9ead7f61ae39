// Loads a library while the program runs, where it is installed: nothing links it.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>
#include <utility>

#include "wreath/result.hpp"

namespace wreath {

// Holds a loaded library, and unloads it when destroyed.
class SharedLibrary {
 public:
  // Loads `file` as dlopen does. Fails with Unavailable: "no libcuda.so.1: cannot open shared object file: ...".
  static Result<SharedLibrary> open(const char* file) {
    SharedLibrary library(::dlopen(file, RTLD_NOW | RTLD_LOCAL));
    if (library.handle_ != nullptr) return Result<SharedLibrary>(std::move(library));
    // The text begins with the file where that is not found.
    const char* const why = ::dlerror();
    const std::string named = std::string(file) + ": ";
    std::string text = why == nullptr ? "unknown" : why;
    if (!text.starts_with(named)) text = named + text;
    return Error{ErrorCode::Unavailable, "no " + text, -1};
  }

  // Returns whether the program has loaded `file` already.
  static bool is_loaded(const char* file) {
    void* const handle = ::dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) ::dlclose(handle);
    return handle != nullptr;
  }

  // Returns null where the library has no such function.
  template <typename Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_.get(), name));
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle, &::dlclose) {}

  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace wreath
