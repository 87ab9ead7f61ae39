// A libFuzzer target. A peer may send any bytes on a data connection: the link takes messages or fails, and stays
// within its memory. The first byte of the input says whether messages have checksums. Records of {kind, content}
// follow: an even kind is a frame made valid, an odd one raw bytes.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "src/base/hash.hpp"
#include "src/fifo/access.hpp"
#include "transports/tcp/link.hpp"
#include "transports/tcp/wire.hpp"

namespace {

constexpr wreath::FifoShape kShape{
    .lanes = 3, .slot_count = 2, .slot_bytes = 4096, .first_sequence = 0, .epoch = 1, .checked = false};
constexpr std::size_t kMaximumStream = 64 * 1024;

// Appends a frame with right check values and, mostly, right fields; the rest of `content` is its payload.
void append_frame(std::span<const std::uint8_t> content, std::vector<std::byte>& stream, bool checked) {
  std::uint8_t fields[8] = {};
  std::copy_n(content.begin(), std::min<std::size_t>(content.size(), 8), fields);
  wreath::WireHeader header;
  header.kind = static_cast<wreath::FrameKind>(fields[0] % 3);
  if (checked && fields[0] < 250 && header.kind == wreath::FrameKind::Data) header.kind = wreath::FrameKind::Checked;
  header.epoch = fields[1] < 250 ? 1 : fields[1];
  header.lane = fields[2] % 4;
  header.credit_lane = fields[3] % 4;
  header.sequence = fields[4] % 8;
  header.credit = fields[5] % 4;
  header.bytes = std::uint32_t{fields[6]} * 17;
  const wreath::FrameExtent parts = wreath::extent(header);
  std::vector<std::byte> frame(parts.prefix + parts.bytes + parts.tail, std::byte{fields[7]});
  wreath::encode(header, frame.data());
  if (header.kind == wreath::FrameKind::Checked)
    wreath::put_checksum(frame.data(), wreath::checksum(std::span(frame).subspan(parts.prefix, parts.bytes)));
  if (fields[7] >= 250) frame.resize(frame.size() / 2);
  stream.insert(stream.end(), frame.begin(), frame.end());
}

std::vector<std::byte> stream_of(std::span<const std::uint8_t> data, bool checked) {
  std::vector<std::byte> stream;
  while (data.size() > 1 && stream.size() < kMaximumStream) {
    const std::size_t size = std::min<std::size_t>(data[0] % 32, data.size() - 1);
    const auto content = data.subspan(1, size);
    if (data[0] % 2 == 0) {
      append_frame(content, stream, checked);
    } else {
      const auto raw = std::as_bytes(content);
      stream.insert(stream.end(), raw.begin(), raw.end());
    }
    data = data.subspan(1 + size);
  }
  return stream;
}

void take_messages(wreath::TcpLink& link) {
  for (std::uint16_t lane = 0; lane < kShape.lanes; ++lane) {
    wreath::RecvFifo& fifo = link.recv_fifo(lane);
    while (const wreath::SlotHeader* slot = wreath::peek(fifo)) {
      const wreath::Located located = wreath::locate(fifo, *slot);
      if (located.state != wreath::Locating::Found || slot->bytes > kShape.slot_bytes) std::abort();
      // The loop shows that every byte of the message can be read.
      unsigned sum = 0;
      for (std::uint32_t i = 0; i < slot->bytes; ++i) sum += static_cast<unsigned>(located.data[i]);
      if (sum > 255u * slot->bytes) std::abort();
      wreath::consume(fifo);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  wreath::FifoShape shape = kShape;
  shape.checked = data[0] % 2 != 0;
  const std::vector<std::byte> stream = stream_of({data + 1, size - 1}, shape.checked);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  wreath::TcpLink link(1, wreath::Fd(ends[0]), shape, {}, std::make_shared<wreath::TcpCounts>());
  // The peer is closed first, so that the link does not wait.
  const wreath::Fd peer(ends[1]);
  for (std::uint16_t lane = 0; lane < kShape.lanes; ++lane) static_cast<void>(link.prepare(lane));
  std::size_t sent = 0;
  for (int round = 0; round < 100; ++round) {
    const auto wrote = ::send(peer.get(), stream.data() + sent, stream.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (wrote > 0) sent += static_cast<std::size_t>(wrote);
    const auto moved = link.progress(true);
    if (!moved) return moved.error().message.empty() ? (std::abort(), 0) : 0;
    take_messages(link);
    if (sent == stream.size() && *moved == 0) break;
  }
  return 0;
}
