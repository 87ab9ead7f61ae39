// Ends waits of another thread.
#pragma once

#include "src/base/fd.hpp"

namespace wreath {

class Interrupt {
 public:
  Interrupt();
  void set();
  void clear();
  // Returns a descriptor that is readable while the interrupt is set.
  int descriptor() const { return event_.get(); }

 private:
  // Is empty where descriptors ran out: then only clocks end a wait.
  Fd event_;
};

}  // namespace wreath
