// The device itself copies, and each copy is complete when its function returns.
#include "src/device/runs/staged_buffers.hpp"

#include <algorithm>

#include "src/device/call_memory.hpp"

namespace wreath {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void StagedBuffers::add(std::byte* data, std::size_t bytes, bool written) {
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

Status StagedBuffers::copy_in() {
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

std::byte* StagedBuffers::at(const std::byte* data) const {
  for (const Piece& piece : pieces_) {
    if (piece.data <= data && data < piece.data + piece.bytes) return piece.place + (data - piece.data);
  }
  return const_cast<std::byte*>(data);
}

Status StagedBuffers::copy_back() {
  for (const Piece& piece : pieces_) {
    if (piece.written) WREATH_TRY(piece.device->copy(piece.data, piece.place, piece.bytes));
  }
  clear();
  return {};
}

}  // namespace wreath
