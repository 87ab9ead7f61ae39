// Runs a piece of a test in a child of a fork.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace wreath::test {

// Returns what `body` returned in a child: 0 to 255; or 1000 and the signal that ended it, which it also gets after 30
// seconds; or 2000 where there was no child.
template <typename Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    ::_exit(body());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 2000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace wreath::test
