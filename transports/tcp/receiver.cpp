// Publishes messages of one stream: see receiver.hpp.
#include "transports/tcp/receiver.hpp"

#include <fmt/format.h>

#include <utility>

#include "src/base/planted_fault.hpp"
#include "transports/tcp/headers.hpp"

namespace wreath {

TcpReceiver::TcpReceiver(int socket, WireLanes& lanes, TcpCounts& counts)
    : FrameReader(socket, lanes.shape(), Framing::Whole, counts), lanes_(lanes), places_(lanes.shape().lanes) {
  for (std::uint16_t i = 0; i < lanes.shape().lanes; ++i) lanes[i].recv.landing = &places_[i].landing;
}

Status TcpReceiver::check(const WireHeader& header) const {
  if (has_message(header.kind)) WREATH_TRY(check_order(header));
  return check_credit(header);
}

void TcpReceiver::take_report(const WireHeader& header) {
  if (!(planted_fault(10) && has_message(header.kind))) lanes_[header.credit_lane].sent.remove_before(header.credit);
}

Status TcpReceiver::check_order(const WireHeader& header) const {
  const WireWindow& window = lanes_[header.lane].received;
  if (header.sequence != window.end()) {
    return bad_field("sequence", header, header.sequence, fmt::format("expected {}", window.end()));
  }
  if (!window.has_room(header.bytes)) {
    return bad_field("sequence", header, header.sequence,
                     fmt::format("but there is no room for {} bytes beside the {} messages since {}", header.bytes,
                                 window.messages(), window.begin()));
  }
  return {};
}

Status TcpReceiver::check_credit(const WireHeader& header) const {
  const WireWindow& window = lanes_[header.credit_lane].sent;
  if (header.credit - window.begin() > window.messages() || (planted_fault(12) && header.credit < window.begin())) {
    return bad_field("credit", header, header.credit,
                     fmt::format("must be between {} and {}", window.begin(), window.end()));
  }
  return {};
}

// Returns the target of the step that waits for this very message, or else the message's place in staging memory.
Result<std::byte*> TcpReceiver::destination(const WireHeader& header) {
  Places& places = places_[header.lane];
  Landing& landing = places.landing;
  if (landing.target != nullptr && (landing.sequence == header.sequence || planted_fault(11)) &&
      landing.bytes == header.bytes) {
    return std::exchange(landing.target, nullptr);
  }
  const FifoShape& shape = lanes_.shape();
  if (header.bytes > kCopiedBytes) {
    WREATH_TRY(places.large.allocate(staging_bytes(shape)));
    return places.large.data() + std::size_t{lanes_[header.lane].received.large_place()} * shape.slot_bytes;
  }
  WREATH_TRY(places.small.allocate(window_messages(shape) * kCopiedBytes));
  return places.small.data() + (header.sequence & (window_messages(shape) - 1)) * kCopiedBytes;
}

void TcpReceiver::take_payload(const WireHeader& header, const std::byte* data) {
  lanes_[header.lane].publish_received(message_of(header), data);
}

}  // namespace wreath
