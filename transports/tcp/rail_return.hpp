// A socket that was lost is replaced by a new one. The end of the lower rank waits for it and says where, by a word.
// The other end connects and says the word's secret, and the first one answers. No function here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/base/fd.hpp"
#include "transports/tcp/rail_words.hpp"

namespace wreath {

class RailReturn {
 public:
  // `waits` says that this is the end that waits. It begins at that time.
  RailReturn(RailAddresses lost, bool waits, std::int64_t begin_ns)
      : lost_(std::move(lost)), waits_(waits), next_ns_(begin_ns) {}

  // Does what can be done now. Returns the new socket, once, when it is connected. `word` gets what the peer must hear.
  std::optional<Fd> step(std::int64_t now_ns, std::optional<RailWord>& word);
  // Takes the peer's word that it waits.
  void on_awaited(const RailWord& word, std::int64_t now_ns);

 private:
  void listen(std::int64_t now_ns, std::optional<RailWord>& word);
  std::optional<Fd> accept(std::int64_t now_ns);
  std::optional<Fd> connect(std::int64_t now_ns);
  std::optional<bool> hears(const RailSecret& expected);

  const RailAddresses lost_;
  const bool waits_;
  std::int64_t next_ns_;       // no attempt is made before this time
  std::int64_t until_ns_ = 0;  // the attempt ends
  std::int64_t pause_ns_ = 0;
  Fd listener_;
  // The connection that is being made. Who is at its other end is not known yet.
  Fd socket_;
  std::int64_t socket_until_ns_ = 0;
  RailSecret secret_{};
  RailSecret answer_{};
  bool asked_ = false;  // the secret was said
  RailSecret heard_{};
  std::size_t heard_bytes_ = 0;
};

}  // namespace wreath
