// ControlHandlers is a table from the kind of a message to its handlers. Each room of the library adds its own.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/membership/messages.hpp"
#include "wreath/result.hpp"

namespace wreath {

// A Loss says that this rank no longer hears a member.
struct Loss {
  enum class How : std::uint8_t {
    // The member's process is gone, or has closed its end.
    Ended,
    // The end was closed by force: by a process that ended, or by something between the two.
    Reset,
    // The way between the two is broken. The member may live and act.
    Broken,
  };
  Rank rank = 0;
  How how = How::Broken;
  std::string reason;
};

// The rooms fill the table before the members start to speak, and it does not change afterwards. The progress thread
// calls the handlers, one message at a time.
class ControlHandlers {
 public:
  // The handlers of a kind are called in the order in which they were added. At most one of them may move content out
  // of the message.
  using OnMessage = std::function<void(Rank from, ControlMessage& message)>;
  void add(MessageKind kind, OnMessage handler) { of(kind).push_back(std::move(handler)); }
  using OnLost = std::function<void(const Loss& loss)>;
  void add_lost(OnLost handler) { lost_.push_back(std::move(handler)); }
  // The handler gets the error when this rank cannot take what a peer has sent. The peer is lost next.
  using OnUnable = std::function<void(const Error& error)>;
  void add_unable(OnUnable handler) { unable_.push_back(std::move(handler)); }

  // Returns System where a kind of message, or a loss, has no handler. Such a message would be lost without an error.
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
