// Where an operation that a program starts begins: in the queue, when its stream comes to it, when a graph is launched,
// or without any of these.
#pragma once

#include <functional>
#include <memory>

#include "src/engine/operation.hpp"

namespace wreath {

// Begins what Engine::prepare() made; its turn among the calls is taken now. Its stream may refuse it, and then the
// communicator has failed.
Result<std::shared_ptr<Operation>> begin_operation(std::shared_ptr<Operation> operation);

// Begins a captured call for one launch of its graph: returns what the stream does when it comes to it. There need not
// be room: what finds none is entered when those before it are over.
std::function<Status()> begin_replay(const std::shared_ptr<Operation>& operation);

}  // namespace wreath
