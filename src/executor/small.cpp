// The two small-message protocols.
#include "src/executor/small.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/base/memory_order.hpp"
#include "src/schedule/geometry.hpp"

namespace wreath {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLineBuffers = 2;
constexpr std::size_t kLineBufferBytes = 20 * kLine;  // 1 KiB of data at 56 a line
constexpr std::size_t kBlockBuffers = 4;
constexpr std::size_t kBlockBytes = kLine + kSmallMessageBytes;
constexpr std::size_t kBlocksOffset = kLineBuffers * kLineBufferBytes;
static_assert(kBlocksOffset + kBlockBuffers * kBlockBytes <= kSmallAreaBytes);

std::size_t line_offset(std::uint32_t sequence) { return sequence % kLineBuffers * kLineBufferBytes; }
std::size_t block_offset(std::uint32_t sequence) { return kBlocksOffset + sequence % kBlockBuffers * kBlockBytes; }

// Sequence 0 is never sent: a zeroed area holds no message.
std::uint64_t flag_of(std::uint32_t sequence, std::uint32_t signature) {
  return (static_cast<std::uint64_t>(signature) << 32) | sequence;
}

std::uint64_t load_flag(const std::byte* place) { return load_acquire(*reinterpret_cast<const std::uint64_t*>(place)); }

void store_flag(std::byte* place, std::uint64_t flag) { store_release(*reinterpret_cast<std::uint64_t*>(place), flag); }

}  // namespace

SmallExchange::SmallExchange(int rank, std::vector<const std::byte*> areas, std::byte* own)
    : rank_(rank),
      areas_(std::move(areas)),
      own_(own),
      sources_(areas_.size()),
      gathered_(areas_.size() * kLineMessageBytes) {}

void SmallExchange::start(const SmallCall& call) {
  call_ = call;
  if (++sequence_ == 0) sequence_ = 4;  // keeps the buffers' turn
  peer_ = 0;
  line_ = 0;
  sources_[static_cast<std::size_t>(rank_)] = call.input;
  const std::uint64_t flag = flag_of(sequence_, call.signature);
  if (lines()) {
    std::byte* line = own_ + line_offset(sequence_);
    std::size_t done = 0;
    do {
      const std::size_t bytes = std::min(kLineData, call.bytes - done);
      std::memcpy(line, call.input + done, bytes);
      store_flag(line + kLineData, flag);
      done += bytes;
      line += kLine;
    } while (done < call.bytes);
    return;
  }
  std::byte* block = own_ + block_offset(sequence_);
  copy_kernels().fill(block + kLine, call.input, call.bytes);
  store_flag(block, flag);
}

Advance SmallExchange::run() {
  const int ranks = static_cast<int>(areas_.size());
  for (; peer_ < ranks; ++peer_, line_ = 0) {
    if (peer_ == rank_) continue;
    const Advance gathered = lines() ? gather_lines(peer_) : gather_block(peer_);
    if (gathered != Advance::Done) return gathered;
  }
  call_.arithmetic.combine(call_.arithmetic, call_.output, Form::Data, sources_.data(), ranks,
                           {Form::Data, rank_, Form::Data}, call_.elements);
  return Advance::Done;
}

Advance SmallExchange::gather_lines(int peer) {
  const std::byte* first = areas_[static_cast<std::size_t>(peer)] + line_offset(sequence_);
  const std::size_t count = call_.bytes <= kLineData ? 1 : divide_up(call_.bytes, kLineData);
  std::byte* gathered = gathered_.data() + static_cast<std::size_t>(peer) * kLineMessageBytes;
  for (; line_ < count; ++line_) {
    const std::byte* line = first + line_ * kLine;
    const std::uint64_t flag = load_flag(line + kLineData);
    if (static_cast<std::uint32_t>(flag) != sequence_) return Advance::Blocked;
    if (static_cast<std::uint32_t>(flag >> 32) != call_.signature) return Advance::Failed;
    const std::size_t done = line_ * kLineData;
    if (count > 1) std::memcpy(gathered + done, line, std::min(kLineData, call_.bytes - done));
  }
  sources_[static_cast<std::size_t>(peer)] = count > 1 ? gathered : first;
  return Advance::Done;
}

Advance SmallExchange::gather_block(int peer) {
  const std::byte* block = areas_[static_cast<std::size_t>(peer)] + block_offset(sequence_);
  const std::uint64_t flag = load_flag(block);
  if (static_cast<std::uint32_t>(flag) != sequence_) return Advance::Blocked;
  if (static_cast<std::uint32_t>(flag >> 32) != call_.signature) return Advance::Failed;
  sources_[static_cast<std::size_t>(peer)] = block + kLine;
  return Advance::Done;
}

}  // namespace wreath
