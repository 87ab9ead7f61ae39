// A rank that waits asks its peers this.
#pragma once

#include <cstdint>

#include "wreath/types.hpp"

namespace wreath {

// Whether the peer has entered a call of all ranks, or its counterpart of the asker's send or receive.
enum class Subject : std::uint8_t { Call, Send, Receive };
inline constexpr std::uint8_t kSubjects = 3;

// The other rank calls it so.
constexpr Subject counterpart(Subject subject) {
  if (subject == Subject::Call) return subject;
  return subject == Subject::Send ? Subject::Receive : Subject::Send;
}

struct Question {
  Rank peer = 0;
  Subject subject = Subject::Call;
  std::uint64_t number = 0;  // of the call; of the messages between the two, in that direction
};

// This says how far a rank came: calls of all ranks and their hash (CallHistory), and messages it sent to a peer and
// received from it.
struct Progressed {
  std::uint64_t calls = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t hash = 0;

  // Says how much of the asker's subject a peer that came so far has done.
  std::uint64_t done(Subject subject) const {
    switch (subject) {
      case Subject::Call: return calls;
      case Subject::Send: return received;
      case Subject::Receive: return sent;
    }
    return 0;
  }
};

}  // namespace wreath
