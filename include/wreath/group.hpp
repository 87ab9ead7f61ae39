// Launches calls as one: calls of one thread, over one or many communicators of this process.
#pragma once

#include "wreath/result.hpp"
#include "wreath/work.hpp"

namespace wreath {

class GroupCalls;

// Keeps the calls that its thread makes (on any communicator), from its construction to its launch. Blocking forms
// return success after checking their arguments; _async forms return a Work that is done when the group is. launch()
// begins the calls together, each communicator's in order. Its sends and recvs begin first and at once, in any order.
// So ranks may send to each other, and one thread may drive several ranks. Groups nest: the outermost one launches.
//
//   Group group;
//   communicator.send(to_right, right);
//   communicator.recv(from_left, left);
//   group.run().value();
//
// One thread makes, uses and destroys the group. No other thread destroys a communicator of the group before run() or
// launch() has returned. Destroyed without a launch, the group begins no call, and the calls' Works get InvalidUsage.
class Group {
 public:
  Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();
  // Begins all calls. The Work is done when all calls are, and holds the first error. A nested group returns an empty
  // Work that is done.
  Result<Work> launch();
  // Launches the group and waits for it.
  Status run();

 private:
  // The thread's calls; null after the launch.
  GroupCalls* calls_;
  bool outermost_;
};

}  // namespace wreath
