// Finds the functions of libfabric.so.1 while the program runs. Nothing links that library. All others are reached
// through tables of the objects, by inline functions of its headers.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/shared_library.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Lists the functions by the names of fabric.h without `fi_`.
#define WREATH_OFI_FUNCTIONS(EACH) EACH(version) EACH(getinfo) EACH(freeinfo) EACH(dupinfo) EACH(fabric) EACH(strerror)

#define WREATH_OFI_MEMBER(function) decltype(::fi_##function)* function = nullptr;

struct OfiFunctions {
  WREATH_OFI_FUNCTIONS(WREATH_OFI_MEMBER)
};

class OfiLibrary : public OfiFunctions {
 public:
  // Loads `file`. Unavailable says what is missing, and the way to install it.
  static Result<std::unique_ptr<OfiLibrary>> load(const char* file = "libfabric.so.1");
  // Returns the process's library, which is loaded once and stays.
  static Result<const OfiLibrary*> get() { return loaded_once<OfiLibrary>(); }

  // Explains what a call returned, which is below 0: "fi_enable: No data available".
  std::string explain(std::string_view call, std::int64_t returned) const;

 private:
  explicit OfiLibrary(SharedLibrary library) : library_(std::move(library)) {}

  SharedLibrary library_;
};

}  // namespace wreath
