// Opens further rails of a link while it runs, one at a time, and says which one is not needed any more. The end of the
// lower rank keeps the count: the other end tells it how many rails it wants and has. No function here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "src/base/fd.hpp"
#include "transports/tcp/rail_return.hpp"
#include "transports/tcp/rail_words.hpp"
#include "wreath/result.hpp"

namespace wreath {

class RailOpening {
 public:
  // `keeps` says that this end keeps the count.
  explicit RailOpening(bool keeps) : keeps_(keeps) {}

  // Takes note of how many rails this end wants.
  void want(std::size_t rails);
  // Does what can be done now, where this end has so many rails. `first` names the first of them. Returns the socket of
  // a new rail, once. `words` gets what the peer must hear.
  std::optional<Fd> step(std::int64_t now_ns, const RailAddresses& first, std::size_t rails,
                         std::deque<RailWord>& words);
  // Takes note that the peer never had the last rail, which has ended.
  void give_up() { failed_ = true; }
  bool under_way() const { return attempt_.has_value(); }
  // Returns how many of this end's rails the other end has, too. A rail that it has not is none yet.
  std::size_t shared(std::size_t rails) const { return keeps_ && peer_.has < rails ? peer_.has : rails; }
  // Returns whether the last rail should go, since neither end needs it. The other end closes it then.
  bool has_too_many(std::size_t rails) const;

  // Take the peer's words. Mismatch says what is wrong with one.
  Status on_count(const RailCount& word);
  Status on_offered(const RailWord& word, const RailAddresses& first, std::size_t rails, std::int64_t now_ns);
  Status on_unneeded() const;

 private:
  std::size_t target() const { return own_ > peer_.wants ? own_ : peer_.wants; }

  const bool keeps_;
  std::size_t own_ = 1;  // this end wants
  RailCount peer_;       // as it said
  RailCount said_;
  std::optional<RailReturn> attempt_;
  std::int64_t until_ns_ = 0;
  // An attempt failed, and no end has wanted anything else since.
  bool failed_ = false;
};

}  // namespace wreath
