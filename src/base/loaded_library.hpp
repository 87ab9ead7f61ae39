// LoadedLibrary loads a library while the program runs, and finds the functions that are needed: nothing links it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "src/base/shared_library.hpp"
#include "wreath/result.hpp"

namespace wreath {

struct LibraryNames {
  const char* file;     // "libfabric.so.1"
  const char* install;  // the packages that have it
  const char* newer;    // what is to be installed where it lacks a function
};

// `Functions` has pointers to functions, kNames, and look_up(library): this finds the functions, and returns the name
// of the first that the library lacks.
template <typename Functions>
class LoadedLibrary : public Functions {
 public:
  // Loads `file`. Unavailable says what is missing, and the way to install it.
  static Result<std::unique_ptr<LoadedLibrary>> load(const char* file = Functions::kNames.file) {
    auto library = SharedLibrary::open(file);
    if (!library) {
      return Error{ErrorCode::Unavailable, library.error().message + "; install " + Functions::kNames.install};
    }
    std::unique_ptr<LoadedLibrary> made(new LoadedLibrary(*std::move(library)));
    if (const std::string missing = made->look_up(made->library_); !missing.empty()) {
      return Error{ErrorCode::Unavailable,
                   std::string(file) + " has no " + missing + "; install " + Functions::kNames.newer};
    }
    return made;
  }
  // Returns the process's library, which is loaded once and stays: drivers cannot be unloaded.
  static Result<const LoadedLibrary*> get() { return loaded_once<LoadedLibrary>(); }

 private:
  explicit LoadedLibrary(SharedLibrary library) : library_(std::move(library)) {}

  SharedLibrary library_;
};

}  // namespace wreath
