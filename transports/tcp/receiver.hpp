// The receiving half of a link reads frames, checks them, and publishes their messages.
//
// Small frames are read many at a time into a buffer. A large payload is read straight to the place where the executor
// wants it, together with the prefix of the frame behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/fifo/wire/lanes.hpp"
#include "transports/tcp/wire.hpp"
#include "wreath/result.hpp"

namespace wreath {

class TcpReceiver {
 public:
  TcpReceiver(int socket, WireLanes& lanes);

  // Reads what is there now, and returns the bytes moved, or 0 when nothing is there. Returns PeerLost with the reason
  // when the connection is gone. Returns PeerLost with the field for a frame that no correct peer sends. Other codes
  // report this rank's own trouble.
  Result<std::size_t> receive_some();

 private:
  Result<std::size_t> read();
  Error end_of_stream() const;
  Status parse();
  // Looks at one frame. Returns false when more bytes are needed first.
  Result<bool> parse_frame();
  Status check_order(const WireHeader& header) const;
  Status check_credit(const WireHeader& header) const;
  Result<std::byte*> destination(const WireHeader& header);
  Status take(std::byte* target, std::size_t bytes);
  Status finish_message();
  void skip_buffered();
  std::size_t buffered() const { return end_ - begin_; }
  std::size_t wanted() const;

  static constexpr std::size_t kBufferBytes = 16 * 1024;
  static constexpr std::size_t kFirstRead = 8 * 1024;  // while frames are small
  // The bytes behind a large payload: its tail and the next prefix.
  static constexpr std::size_t kPrefixRead = 63 + kLongestPrefix;
  static_assert(kFirstRead >= kLongestCopied);

  // The memory has a place for each message of a lane's window.
  struct Places {
    LocalMemory small;
    LocalMemory large;
    Landing landing;
  };

  int socket_;
  WireLanes& lanes_;
  std::vector<Places> places_;  // by lane
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t skip_ = 0;  // padding before the next frame

  // These fields describe the message that is being read.
  WireHeader header_;
  std::uint64_t checksum_ = 0;  // for kinds that have one
  // The place of the whole message. If it is null, the message is thrown away.
  std::byte* target_ = nullptr;
  std::size_t done_ = 0;
  std::size_t remaining_ = 0;

  // The last message was large, so another large one is expected.
  bool large_ = false;
  // A message was published in this call.
  bool published_ = false;
};

}  // namespace wreath
