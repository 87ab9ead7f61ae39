// Makes the links between ranks once they know each other: every rank connects to all lower ones.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "src/bootstrap/acceptor.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/proof.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Returns the address as other hosts get it: without the zone, which has another number there.
NetAddress to_net_address(const SocketAddress& address);
// Returns the address; where there is none, its family is unspecified.
SocketAddress to_socket_address(const NetAddress& address);
// Returns whether this process may open no more descriptors, so that it is of no use to try again.
bool lacks_descriptors(const Error& error);

class Mesh {
 public:
  // `listeners` are where the table says that this rank listens. `key` is the links' key, which is derived from the
  // job's key and the table's salt. `zone` is that of this rank's way to the meeting point, where that has one.
  Mesh(Rank rank, Table table, std::shared_ptr<const Key> key, std::vector<Fd> listeners, std::uint32_t zone);

  // Makes one control connection per peer, within the table's time. Ends early (NotReady) when `watch` becomes
  // readable.
  Result<std::vector<Connection>> link_all(int watch);

  // Opens one more TCP connection to `peer`. Ends early (NotReady) when `watch` becomes readable. Connections of other
  // numbers try the peer's addresses from another one on.
  Result<Fd> open_stream(Rank peer, Deadline deadline, int watch, std::size_t number = 0);

  const Table& table() const { return table_; }

 private:
  std::vector<SocketAddress> addresses_of(Rank peer, Purpose purpose) const;
  Identity identity(Purpose purpose) const;
  Result<Connection> connect(Rank peer, Purpose purpose, Deadline deadline, int watch, std::size_t number = 0);
  Result<Connection> attempt(Rank peer, Purpose purpose, const SocketAddress& address, Deadline deadline,
                             int watch) const;
  Result<Connection> accept(Rank peer, Purpose purpose, Deadline deadline, int watch);
  std::string describe(Rank peer) const;
  std::string listening_text() const;

  Rank rank_;
  Table table_;
  std::shared_ptr<const Key> key_;
  std::uint32_t zone_;
  Acceptor acceptor_;
  // Holds connections that arrived before they were asked for.
  std::deque<Proved> waiting_;
  // Says which of a peer's addresses to try first.
  std::map<Rank, std::size_t> last_worked_;
};

}  // namespace wreath
