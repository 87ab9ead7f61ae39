// These interfaces are all that split and shrink know of communicators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/interrupt.hpp"
#include "src/membership/question.hpp"
#include "wreath/result.hpp"
#include "wreath/types.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

// A ChildCommunicator was made out of another communicator.
class ChildCommunicator {
 public:
  virtual ~ChildCommunicator() = default;
  // Says goodbye to its members.
  virtual void leave() = 0;
};

// A ParentCommunicator is the one on which split or shrink is called.
class ParentCommunicator {
 public:
  virtual ~ParentCommunicator() = default;
  // Returns the text that begins its error messages.
  virtual std::string identity() const = 0;
  // Returns its first failure.
  virtual Status error() const = 0;
  // Ends the communicator and tells its members.
  virtual void fail(ErrorCode code, Rank failed_rank, const std::string& reason) = 0;
  // Says whether a member made other calls than this rank. The communicator then fails in a moment.
  virtual bool differs() const = 0;
  // Returns this rank's progress, which `peer` compares with its own.
  virtual Progressed progressed(Rank peer) const = 0;
  // Meets `members` at `id` until `interrupt` is set, and links them. This rank is one of them. They are ranks of the
  // parent, in the child's order. The child has the parent's options and the next epoch. An error names a rank of the
  // parent.
  virtual Result<std::shared_ptr<ChildCommunicator>> join(const std::vector<Rank>& members, const UniqueId& id,
                                                          const Interrupt& interrupt) = 0;
};

}  // namespace wreath
