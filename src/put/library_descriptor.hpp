// LibraryDescriptor holds a descriptor that a library opened and will close.
#pragma once

#include <fcntl.h>

#include "src/base/fd.hpp"

namespace wreath {

// Children of a fork do not keep it: an adapter would hold memory for them after the parent's death.
class LibraryDescriptor {
 public:
  LibraryDescriptor() = default;
  explicit LibraryDescriptor(int value) : fd_(Fd::of_process(value)) {}
  LibraryDescriptor(LibraryDescriptor&&) = default;
  LibraryDescriptor& operator=(LibraryDescriptor&&) = default;
  ~LibraryDescriptor() { fd_.release(); }

  int get() const { return fd_.get(); }
  // Lets reads return at once. Returns false with errno.
  bool set_nonblocking() const {
    const int flags = ::fcntl(get(), F_GETFL);
    return flags >= 0 && ::fcntl(get(), F_SETFL, flags | O_NONBLOCK) == 0;
  }

 private:
  Fd fd_;
};

}  // namespace wreath
