// StagedRun finds the buffers of an operation and their sizes, and copies them.
#include "src/device/runs/staged_run.hpp"

#include <algorithm>

#include "src/device/call_memory.hpp"
#include "src/engine/call_shape.hpp"

namespace wreath {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void StagedRun::set(Operation& operation, Run& inner) {
  Run::set(operation);
  inner_ = &inner;
  copied_ = false;
  error_.reset();
}

Status StagedRun::copy_in() {
  Call& call = operation().call;
  ExchangeMessages& messages = operation().messages;
  pieces_.clear();
  if (operation().exchanges()) {
    for (const ExchangeMessage& message : messages.sends) add(message.data, message.bytes(), false);
    for (const ExchangeMessage& message : messages.receives) add(message.data, message.bytes(), true);
  } else {
    if (uses_input(call.collective, call.root, place_.me)) {
      add(const_cast<std::byte*>(call.input), extent_of(call, Buffer::Input, place_), false);
    }
    if (uses_output(call.collective, call.root, place_.me)) {
      add(call.output, extent_of(call, Buffer::Output, place_), true);
    }
  }
  if (pieces_.empty()) return {};
  WREATH_TRY(copy_pieces());
  for (std::vector<ExchangeMessage>* each : {&messages.sends, &messages.receives}) {
    for (ExchangeMessage& message : *each) message.data = at(message.data);
  }
  call.input = at(call.input);
  call.output = at(call.output);
  return {};
}

// Adds a buffer. Memory of the host stays where it is. `written` says that the call writes the buffer. Buffers that
// overlap have one copy. Null and empty buffers are ignored.
void StagedRun::add(std::byte* data, std::size_t bytes, bool written) {
  LibraryDevice* const device = data == nullptr || bytes == 0 ? nullptr : device_of(data);
  if (device == nullptr) return;
  Piece piece{device, data, bytes, written, nullptr};
  const auto overlaps = [&](const Piece& other) {
    return other.data < piece.data + piece.bytes && piece.data < other.data + other.bytes;
  };
  for (auto other = std::find_if(pieces_.begin(), pieces_.end(), overlaps); other != pieces_.end();
       other = std::find_if(pieces_.begin(), pieces_.end(), overlaps)) {
    std::byte* const end = std::max(piece.data + piece.bytes, other->data + other->bytes);
    piece.data = std::min(piece.data, other->data);
    piece.bytes = static_cast<std::size_t>(end - piece.data);
    piece.written = piece.written || other->written;
    pieces_.erase(other);
  }
  pieces_.push_back(piece);
}

// Copies all buffers, even those that the call writes, since it may write only parts of them.
Status StagedRun::copy_pieces() {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces_) bytes += aligned(piece.bytes);
  if (bytes > memory_.size()) {
    auto memory = pieces_.front().device->allocate(std::max(bytes, 2 * memory_.size()), MemoryUse::Pinned);
    if (!memory) return memory.error();
    // Freeing memory waits for all kernels, and a peer's kernel may wait for this rank.
    if (memory_.size() > 0) outgrown_.push_back(std::move(memory_));
    memory_ = *std::move(memory);
  }
  std::byte* next = memory_.data();
  for (Piece& piece : pieces_) {
    piece.place = next;
    next += aligned(piece.bytes);
    WREATH_TRY(piece.device->copy(piece.place, piece.data, piece.bytes));
  }
  return {};
}

// Returns the address of `data` until the end of the call, where `data` is in a buffer that was added.
std::byte* StagedRun::at(const std::byte* data) const {
  for (const Piece& piece : pieces_) {
    if (piece.data <= data && data < piece.data + piece.bytes) return piece.place + (data - piece.data);
  }
  return const_cast<std::byte*>(data);
}

// Copies back the buffers that the call writes. The device itself copies, and each copy is complete when its function
// returns.
Status StagedRun::copy_back() {
  for (const Piece& piece : pieces_) {
    if (piece.written) WREATH_TRY(piece.device->copy(piece.data, piece.place, piece.bytes));
  }
  pieces_.clear();
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
  const Status copied = copy_back();
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
