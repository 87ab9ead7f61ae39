// The control connections of a rank: small messages about offers, state and failure, one stream a peer.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "src/bootstrap/seal.hpp"
#include "src/communicator/progress.hpp"
#include "src/communicator/question.hpp"
#include "wreath/recording.hpp"
#include "wreath/transport.hpp"

namespace wreath {

enum class MessageKind : std::uint8_t {
  Offer,    // how to reach the sender by candidate transport `index`
  Verdict,  // whether that worked: text is empty, or the reason why not
  Region,   // memory that slots will name as region `index`
  Query,    // where are you with call `number`, or with your counterpart of message `number`? `index`: the Subject;
            // `entered`: what calls led to that one?
  State,  // answer: `entered`, `record` of that call or message, `last` call, `earlier` ones where they were asked for,
          // `text`: the call that it waits in
  Failed,    // the sender's communicator failed with `error`
  Goodbye,   // the sender leaves, having `done` so much; its `last` call
  Departed,  // the sender aborted: it takes part in nothing any more
  Shrink,    // of the survivors' agreement `number`: `body` (shrink_message.hpp)
  Split,     // of split `number`: `body` (split.hpp)
  Process,   // the sender's process, as a descriptor that tells its end: to kProcessWatchers ranks of its host
  Ended,     // the process of rank `index`, of the sender's host, has ended
};

inline constexpr std::size_t kEarlierCalls = 64;  // in one message
// All would be a descriptor for each pair of ranks; with one, who dies with its watcher would not be missed.
inline constexpr int kProcessWatchers = 4;

// Unused fields stay at their defaults.
struct ControlMessage {
  MessageKind kind = MessageKind::Query;
  std::uint32_t index = 0;
  std::uint64_t number = 0;
  bool entered = false;
  CallRecord record;
  CallRecord last;
  Progressed done;  // of Query, State, Goodbye, Shrink and Split: how far the sender came
  std::vector<CallRecord> earlier;
  Error error{ErrorCode::System, {}, -1};
  std::string text;
  std::string body;
  Offer offer;
};

// Bytes of a message without its descriptors, and back. Decoding is safe on any bytes.
std::vector<std::byte> encode_control(const ControlMessage& message);
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

inline constexpr std::string_view kConnectionClosed = "connection closed";  // the reason of an end that a process made

// Who acts on what arrives; called by the progress thread.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  virtual void on_message(Rank from, ControlMessage message) = 0;
  // The connection to `from` ended. `closed`: by its end, so its process is gone or has closed it; else the reason says
  // what stands between.
  virtual void on_lost(Rank from, const std::string& reason, bool closed) = 0;
  // This rank cannot take what a peer has sent; the connection is lost next.
  virtual void on_unable(const Error& error) = 0;
};

class ControlPlane {
 public:
  // `connections[r]` leads to rank r; the own entry is empty.
  ControlPlane(std::vector<Connection> connections, ControlHandler& handler);

  // Any thread. Never blocks: what a socket does not take now is kept for flush().
  void send(Rank to, ControlMessage message);
  // To every peer; without descriptors.
  void broadcast(const ControlMessage& message);
  // Sends what was kept; whether something is still waiting.
  bool flush();
  // Whether a peer's kernel may still get what was sent, and has not.
  bool under_way() const;

  // Progress thread.
  void start(Progress& progress, Progress::Client& client);
  void on_readable(Rank from);
  // From now on, within on_event: `process`, a pidfd, tells when the peer is gone, though a child of its may hold the
  // connection. Its events have the token number of ranks + `peer`.
  void watch_process(Rank peer, Fd process);
  // The peer's process has ended: the connection is lost, once what it said before was read. False: it was lost
  // already.
  bool on_process_end(Rank peer);
  bool open(Rank peer) const { return !peers_[static_cast<std::size_t>(peer)]->lost; }
  // The IP of this host by which `peer` reaches it; empty over a UNIX socket.
  std::string own_address(Rank peer) const;

 private:
  struct Frame {
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
    std::vector<Fd> descriptors;  // travel with the first byte
  };
  struct Peer {
    Connection connection;
    Fd process;        // of a rank of this host in another process
    std::mutex mutex;  // of `outgoing`, whose frames are sealed in their order
    std::deque<Frame> outgoing;
    std::vector<std::byte> incoming;
    std::deque<Fd> descriptors;
    std::atomic<bool> lost = false;
  };

  void enqueue(Peer& peer, const Content& content, std::vector<Fd> descriptors);
  bool flush(Peer& peer);
  void lose(Rank from, const std::string& reason, bool closed);
  bool receive(Rank from);
  bool parse(Rank from);
  Result<std::size_t> take_frame(Rank from, std::size_t at);

  std::vector<std::unique_ptr<Peer>> peers_;
  ControlHandler& handler_;
  Progress* progress_ = nullptr;
  Progress::Client* client_ = nullptr;
};

}  // namespace wreath
