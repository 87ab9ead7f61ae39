// Communicators out of a communicator, as split and shrink see them.
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

// One that was made out of another one.
class ChildCommunicator {
 public:
  virtual ~ChildCommunicator() = default;
  // Says goodbye to its members.
  virtual void leave() = 0;
};

// The one that split or shrink is called on.
class ParentCommunicator {
 public:
  virtual ~ParentCommunicator() = default;
  // Begins its error messages.
  virtual std::string identity() const = 0;
  // Its first failure.
  virtual Status error() const = 0;
  // Ends it: its members are told.
  virtual void fail(ErrorCode code, Rank failed_rank, const std::string& reason) = 0;
  // Whether a member made other calls than this rank, so that it fails in a moment.
  virtual bool differs() const = 0;
  // Says how far this rank came, for `peer` to compare.
  virtual Progressed progressed(Rank peer) const = 0;
  // Meets `members`, of which this rank is one, at `id` until `interrupt` is set, and links them. They are ranks of
  // the parent in the child's order; the child has the parent's options and the next epoch. An error names a rank of
  // the parent.
  virtual Result<std::shared_ptr<ChildCommunicator>> join(const std::vector<Rank>& members, const UniqueId& id,
                                                          const Interrupt& interrupt) = 0;
};

}  // namespace wreath
