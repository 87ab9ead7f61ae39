// Defines the handle of one operation in flight.
#pragma once

#include <cstdint>
#include <memory>

#include "wreath/result.hpp"

namespace wreath {

class Operation;

// Refers to an operation and can be moved, but not copied. Destruction does not wait: the operation runs on, and its
// buffers must live until it is done. Any thread may use the handle, one at a time.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  // Returns whether the operation is over, successfully or not. Never blocks.
  bool done() const noexcept;
  // Waits until the operation is over and returns its status. With timeout_ms < 0 the communicator's own clocks end
  // the wait. When the time runs out first, returns NotReady, and the operation goes on unharmed.
  Status wait(std::int64_t timeout_ms = -1);

 private:
  std::shared_ptr<Operation> operation_;
};

}  // namespace wreath
