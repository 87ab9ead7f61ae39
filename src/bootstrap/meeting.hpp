// The meeting point: one thread in the process of one rank, to which all ranks come at start.
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

// Ranks have so long for linking when the last one came at the last moment.
inline constexpr std::int64_t kLeastLinkMs = 5000;

// How the meeting point is reached and served.
struct MeetingPlace {
  Identity self;                          // its key opens the meeting
  std::vector<SocketAddress> candidates;  // where to look, in order
  std::vector<SocketAddress> interfaces;  // what TCP listeners for other hosts bind where WREATH_SOCKET_IFNAME is not
                                          // set; none: the local end of the connection to the meeting point
  int server = -1;                        // the rank that serves it; -1: nobody knows
  bool ends_when_refused = false;         // it listened before anybody came: refused means gone
  std::uint64_t host = host_id();         // whom this rank shares a host with
  std::string hint;                       // appended to "nobody answered"
  std::string unfit_for_hosts;            // of UNIX sockets: why they are used, and what ranks of several hosts need
};

// Serves a meeting in a detached thread "wreath-meet" that ends when all have met, or failed to within
// the first comer's timeout, or nobody came for 10 minutes.
Status serve_meeting(std::vector<Fd> listeners, Identity self);

// The meeting itself, in the calling thread.
void run_meeting(std::vector<Fd> listeners, Identity self);

// Whether somebody at `address` proves the key of `self` at once.
bool answers(const SocketAddress& address, const Identity& self);

// Goes to the meeting point and returns linked to everybody.
Result<Membership> meet(const MeetingPlace& place, const BootstrapRequest& request);

}  // namespace wreath
