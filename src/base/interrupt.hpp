// Ends waits of another thread.
#pragma once

#include "src/base/fd.hpp"

namespace wreath {

class Interrupt {
 public:
  Interrupt();
  void set();
  void clear();
  // Readable while it is set.
  int descriptor() const { return event_.get(); }

 private:
  Fd event_;  // none where descriptors ran out: then only clocks end a wait
};

}  // namespace wreath
