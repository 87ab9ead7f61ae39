// A rank that waits asks its peers these questions.
#pragma once

#include <cstdint>

#include "wreath/types.hpp"

namespace wreath {

// The Subject says what a peer may have entered: a call of all ranks, or its counterpart of the asker's send or
// receive.
enum class Subject : std::uint8_t { Call, Send, Receive };
inline constexpr std::uint8_t kSubjects = 3;

// Returns the other rank's name for a subject.
constexpr Subject counterpart(Subject subject) {
  if (subject == Subject::Call) return subject;
  return subject == Subject::Send ? Subject::Receive : Subject::Send;
}

struct Question {
  Rank peer = 0;
  Subject subject = Subject::Call;
  // The number of the call, or among the messages between the two in that direction.
  std::uint64_t number = 0;
};

// Progressed says how far a rank came. It counts its calls of all ranks with their hash (CallHistory), and the messages
// that it sent to a peer and received from it.
struct Progressed {
  std::uint64_t calls = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t hash = 0;

  // Returns how much of the asker's subject a peer with this progress has done.
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
