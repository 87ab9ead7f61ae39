// StagedRun finds the buffers of an operation, and their sizes.
#include "src/device/runs/staged_run.hpp"

#include "src/engine/call_shape.hpp"

namespace wreath {

void StagedRun::set(Operation& operation, Run& inner) {
  Run::set(operation);
  inner_ = &inner;
  copied_ = false;
  error_.reset();
}

Status StagedRun::copy_in() {
  Call& call = operation().call;
  ExchangeMessages& messages = operation().messages;
  buffers_.clear();
  if (operation().exchanges()) {
    for (const ExchangeMessage& message : messages.sends) buffers_.add(message.data, message.bytes(), false);
    for (const ExchangeMessage& message : messages.receives) buffers_.add(message.data, message.bytes(), true);
  } else {
    if (uses_input(call.collective, call.root, place_.me)) {
      buffers_.add(const_cast<std::byte*>(call.input), extent_of(call, Buffer::Input, place_), false);
    }
    if (uses_output(call.collective, call.root, place_.me)) {
      buffers_.add(call.output, extent_of(call, Buffer::Output, place_), true);
    }
  }
  if (buffers_.empty()) return {};
  WREATH_TRY(buffers_.copy_in());
  for (std::vector<ExchangeMessage>* each : {&messages.sends, &messages.receives}) {
    for (ExchangeMessage& message : *each) message.data = buffers_.at(message.data);
  }
  call.input = buffers_.at(call.input);
  call.output = buffers_.at(call.output);
  return {};
}

Result<Started> StagedRun::start() {
  if (!copied_) WREATH_TRY(copy_in());
  copied_ = true;
  return inner_->start();
}

Advance StagedRun::advance() {
  const Advance advanced = inner_->advance();
  if (advanced != Advance::Done) return advanced;
  const Status copied = buffers_.copy_back();
  if (copied) return advanced;
  error_ = copied.error();
  return Advance::Failed;
}

RunFault StagedRun::fault() const {
  if (!error_) return inner_->fault();
  RunFault fault{*error_, false};
  fault.error.failed_rank = place_.me;
  return fault;
}

}  // namespace wreath
