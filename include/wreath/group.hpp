// Calls launched as one: over one or many communicators of this process, by one thread.
#pragma once

#include <memory>

#include "wreath/result.hpp"
#include "wreath/work.hpp"

namespace wreath {

// From a Group's making to its launch, calls that its thread makes (on any communicator) are kept: blocking forms
// return success after checking their arguments, _async forms a Work that is done when the group is. launch() begins
// them together, each communicator's in order, but its sends and recvs first and at once, in any order: so ranks may
// send to each other, and one thread may drive several ranks. Groups nest: the outermost launches.
//
//   Group group;
//   communicator.send(to_right, right);
//   communicator.recv(from_left, left);
//   group.run().value();
//
// Of one thread: made, used and ended there. Dropped without launch: nothing is begun, the calls' Works get
// InvalidUsage.
class Group {
 public:
  Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();
  // Begins all calls; the Work is done when all are, with the first error. Of a nested group: an empty Work, done.
  Result<Work> launch();
  // launch() and wait().
  Status run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace wreath
