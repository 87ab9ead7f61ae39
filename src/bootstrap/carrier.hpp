// Declares carriers: launchers that bring a text of rank 0 to the other ranks of a job, through connections of their
// own. Wreath gives them the place where rank 0 waits, and the job's key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.hpp"
#include "src/bootstrap/key.hpp"
#include "wreath/result.hpp"

namespace wreath {

enum class Carrier : std::uint8_t { None, Pmi, Pmix };

// Returns the name that messages use: "PMI", "PMIx".
std::string_view name(Carrier carrier);

// No carrier takes longer texts.
inline constexpr std::size_t kMaxCarriedBytes = 900;

// Holds what a rank gives to a carrier. All ranks of a job call it once.
struct Carriage {
  int rank;
  int ranks;
  // Is the text to carry, of rank 0 alone.
  std::string text;
  Deadline deadline;
  // Holds a descriptor that ends the wait when it becomes readable, or -1.
  int interrupt = -1;
};

// Holds where rank 0 waits.
struct CarriedPlace {
  // Is null where all ranks were given a key (WREATH_KEY, WREATH_KEY_FILE), which is not carried.
  std::shared_ptr<const Key> key;
  // Tells such a job from others of the same key.
  std::string name;
  // Rank 0 listens at the first of this and the next ports that is free.
  std::uint16_t port = 0;
  std::vector<std::string> addresses;
};

// Makes rank 0's text: a new key where `with_key` says so, a port that is probably free, and as many of the addresses
// as fit.
std::string make_carried_text(bool with_key, const std::vector<std::string>& addresses);

// Reads such a text, which has passed through other processes. `from` names them in the error, which never shows the
// text.
Result<CarriedPlace> read_carried_text(std::string_view text, std::string_view from);

// Returns rank 0's place, which `carrier` brings. It is carried once: later calls of this process return the same. A
// failure stays, too, since no launcher takes a half of the ranks twice.
Result<CarriedPlace> carried_place(Carrier carrier, const Carriage& carriage);

}  // namespace wreath
