// Declares the meeting point: one thread in the process of one rank, to which all ranks come at start.
//
//   rank -> point   Hello                    who it is
//   point -> ranks  Summons                  all are here: open a TCP listener, or not
//   rank -> point   Listening                where
//   point -> ranks  Table                    everybody's addresses, the links' key, rank 0's settings
//   (ranks link to each other: mesh.hpp)
//   rank -> point   Ready
//   point -> ranks  Go                       or at any time Refusal, with the reason, to all
#pragma once

#include <vector>

#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/host.hpp"
#include "src/bootstrap/proof.hpp"

namespace wreath {

// Ranks have at least so long for linking, when the last one came at the last moment.
inline constexpr std::int64_t kLeastLinkMs = 5000;

// Describes how the meeting point is reached and served.
struct MeetingPlace {
  // The key of this identity opens the meeting.
  Identity self;
  // Lists where to look, in order.
  std::vector<SocketAddress> candidates;
  // TCP listeners for other hosts bind these where WREATH_SOCKET_IFNAME is not set. Where there are none, they bind the
  // local end of the connection to the meeting point.
  std::vector<SocketAddress> interfaces;
  // Is the rank that serves the meeting point; -1 where this is not known.
  int server = -1;
  // Is true where it listened before any rank came, so that a refusal means that it is gone.
  bool ends_when_refused = false;
  // Identifies the host, which is equal for ranks that share one.
  std::uint64_t host = host_id();
  // Is appended to "nobody answered".
  std::string hint;
  // Says why UNIX sockets are used, and what ranks of several hosts need.
  std::string unfit_for_hosts;
};

// Serves a meeting in a detached thread "wreath-meet". The thread ends when all have met, when they failed to within
// the first comer's timeout, or when no rank came for 10 minutes.
Status serve_meeting(std::vector<Fd> listeners, Identity self);

// Runs the meeting itself, in the calling thread.
void run_meeting(std::vector<Fd> listeners, Identity self);

// Returns whether a process at `address` proves the key of `self` at once.
bool answers(const SocketAddress& address, const Identity& self);

// Returns the request for the meeting of a rank that was brought its place. `deadline` ends the whole start. A rank has
// kLeastLinkMs where the place came at the last moment.
BootstrapRequest rest_of(const BootstrapRequest& request, const Deadline& deadline);

// Goes to the meeting point and returns when this rank is linked to all others.
Result<Membership> meet(const MeetingPlace& place, const BootstrapRequest& request);

}  // namespace wreath
