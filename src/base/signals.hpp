// Keeps signals for the program's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace wreath {

// Keeps signals from this thread while the object lives. Threads that this thread makes meanwhile take none for as long
// as they run.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace wreath
