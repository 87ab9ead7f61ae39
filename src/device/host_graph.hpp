// A graph of the host device gives its streams the captured commands again with each launch, in the order of their
// capture. It has events of its own.
#pragma once

#include <memory>

#include "src/device/capture.hpp"

namespace wreath {

// Returns System where a branch other than the first gets no thread.
Result<std::unique_ptr<Graph>> make_host_graph(Device& device, CapturedItems captured);

}  // namespace wreath
