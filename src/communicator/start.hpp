// From ranks that want to meet to an engine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/interrupt.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/engine.hpp"
#include "src/communicator/options.hpp"
#include "wreath/communicator.hpp"

namespace wreath {

BootstrapRequest request_of(int rank, int ranks, const AgreedOptions& options, const Device* device);
// With the options that the members agreed on.
Result<std::shared_ptr<Engine>> make_engine(Membership membership, std::uint16_t epoch = 1);

// A communicator of some ranks of `parent`, with its options and the next epoch: one of them makes the meeting point
// and gives the id to the others, all of them join, until `interrupt` is set. `members` are ranks of the parent in the
// child's order.
Result<UniqueId> make_meeting(const Engine& parent, const std::vector<Rank>& members);
Result<std::shared_ptr<Engine>> join_child(const Engine& parent, const std::vector<Rank>& members, const UniqueId& id,
                                           const Interrupt& interrupt);
// What such a start ended with: it names ranks of the child, in which `members` are; this one's failed rank is the
// parent's.
Error error_of_child(const Error& error, const std::vector<Rank>& members);

}  // namespace wreath
