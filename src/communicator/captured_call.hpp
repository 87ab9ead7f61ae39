// A call that a stream captured: it takes its turn among the communicator's calls anew with each launch of the graph.
#pragma once

#include <memory>

#include "src/device/library_stream.hpp"
#include "src/engine/operation.hpp"

namespace wreath {

// `prepared` was checked and not begun. What is made of it does not keep the communicator: it may end before the graph.
std::shared_ptr<GraphWork> capture_call(const std::shared_ptr<Engine>& engine, const Operation& prepared);

}  // namespace wreath
