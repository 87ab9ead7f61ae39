// Loads a library while the program runs, where it is installed: nothing links it.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <mutex>
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

  // Finds a function. Where the library has none and `missing` is empty, `missing` becomes the name.
  template <typename Function>
  void look_up(const char* name, Function*& function, std::string& missing) const {
    function = find<Function>(name);
    if (function == nullptr && missing.empty()) missing = name;
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle, &::dlclose) {}

  std::unique_ptr<void, int (*)(void*)> handle_;
};

// Returns what Library::load() makes, which succeeds once in a process and stays: drivers cannot be unloaded.
template <typename Library>
Result<const Library*> loaded_once() {
  static std::mutex mutex;
  static const Library* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded == nullptr) {
    auto library = Library::load();
    if (!library) return library.error();
    loaded = library->release();
  }
  return loaded;
}

}  // namespace wreath
