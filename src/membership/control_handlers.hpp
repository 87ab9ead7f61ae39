// Which room acts on what members say: a table from the kind of a message to its handlers, which each room fills.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/membership/messages.hpp"
#include "wreath/result.hpp"

namespace wreath {

// A member is heard no more.
struct Loss {
  enum class How : std::uint8_t {
    Ended,   // its process is gone, or has closed its end
    Reset,   // its end was closed by force: by a process that ended, or by something between the two
    Broken,  // something stands between the two: it may live and act
  };
  Rank rank = 0;
  How how = How::Broken;
  std::string reason;
};

// The rooms fill it before the members start to speak, and it does not change afterwards. The progress thread calls
// what it holds, one message at a time.
class ControlHandlers {
 public:
  // Handlers of a kind are called in the order in which they were added; at most one of them takes content out of the
  // message.
  using OnMessage = std::function<void(Rank from, ControlMessage& message)>;
  void add(MessageKind kind, OnMessage handler) { of(kind).push_back(std::move(handler)); }
  using OnLost = std::function<void(const Loss& loss)>;
  void add_lost(OnLost handler) { lost_.push_back(std::move(handler)); }
  // This rank cannot take what a peer has sent; that peer is lost next.
  using OnUnable = std::function<void(const Error& error)>;
  void add_unable(OnUnable handler) { unable_.push_back(std::move(handler)); }

  // System where a kind of message, or a loss, has no handler: it would be dropped in silence.
  Status complete() const;

  void message(Rank from, ControlMessage message) const;
  void lost(const Loss& loss) const;
  void unable(const Error& error) const;

 private:
  std::vector<OnMessage>& of(MessageKind kind) { return by_kind_[static_cast<std::size_t>(kind)]; }

  std::array<std::vector<OnMessage>, kMessageKinds> by_kind_;
  std::vector<OnLost> lost_;
  std::vector<OnUnable> unable_;
};

}  // namespace wreath
