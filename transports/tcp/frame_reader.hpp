// A reader takes frames from a stream and checks their form. Its derived classes say what frames mean.
//
// Small frames are read many at a time into a buffer. A large payload is read straight to the place where the executor
// wants it, together with the prefix of the frame behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/tcp/counts.hpp"
#include "transports/tcp/wire.hpp"
#include "wreath/result.hpp"

namespace wreath {

class FrameReader {
 public:
  FrameReader(int socket, const FifoShape& shape, Framing framing, TcpCounts& counts);
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;
  virtual ~FrameReader() = default;

  // Reads what is there now, and returns the bytes moved, or 0 when nothing is there. Returns PeerLost with the reason
  // when the connection is gone. Returns PeerLost with the field for a frame that no correct peer sends. Other codes
  // report this rank's own trouble.
  Result<std::size_t> receive_some();
  // Says whether the last error was the end of the stream, and not a wrong frame.
  bool stream_ended() const { return stream_ended_; }

 protected:
  const FifoShape& shape() const { return shape_; }
  // Throws away the rest of the payload under way, if it is this part of this message.
  void abandon(const WireHeader& part);

 private:
  // Checks a frame of this link's epoch, before anything of it is used.
  virtual Status check(const WireHeader& header) const = 0;
  // Takes what a frame reports of the other direction.
  virtual void take_report(const WireHeader& header) = 0;
  // Returns the place of a frame's payload. If it is null, the payload is thrown away.
  virtual Result<std::byte*> destination(const WireHeader& header) = 0;
  // Takes a payload, which is at `data` as a whole.
  virtual void take_payload(const WireHeader& header, const std::byte* data) = 0;

  Result<std::size_t> read();
  Error end_of_stream() const;
  Status parse();
  // Looks at one frame. Returns false when more bytes are needed first.
  Result<bool> parse_frame();
  Status take(std::byte* target, std::size_t bytes);
  Status finish_payload();
  void skip_buffered();
  std::size_t buffered() const { return end_ - begin_; }
  std::size_t wanted() const;

  static constexpr std::size_t kBufferBytes = 16 * 1024;
  static constexpr std::size_t kFirstRead = 8 * 1024;  // while frames are small
  // The bytes behind a large payload: its tail and the next prefix.
  static constexpr std::size_t kPrefixRead = 63 + kLongestPrefix;
  static_assert(kFirstRead >= kLongestCopied + kLongestPrefix);

  int socket_;
  FifoShape shape_;
  Framing framing_;
  TcpCounts& counts_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t skip_ = 0;  // padding before the next frame

  // These fields describe the payload that is being read.
  WireHeader header_;
  std::size_t bytes_ = 0;
  std::uint64_t checksum_ = 0;  // for kinds that have one
  // The place of the whole payload. If it is null, the payload is thrown away.
  std::byte* target_ = nullptr;
  std::size_t done_ = 0;
  std::size_t remaining_ = 0;

  // The last payload was large, so another large one is expected.
  bool large_ = false;
  // A payload was taken in this call.
  bool published_ = false;
  bool stream_ended_ = false;
};

}  // namespace wreath
