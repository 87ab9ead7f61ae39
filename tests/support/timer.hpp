// Interrupts system calls by a timer's signals, as a profiler does.
#pragma once

#include <signal.h>
#include <sys/time.h>

namespace wreath::test {

// Sends SIGALRM to this process every `period_us`, without SA_RESTART, while the object lives.
class Timer {
 public:
  explicit Timer(long period_us) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval period{{0, period_us}, {0, period_us}};
    ::setitimer(ITIMER_REAL, &period, nullptr);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    const itimerval none{};
    ::setitimer(ITIMER_REAL, &none, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

}  // namespace wreath::test
