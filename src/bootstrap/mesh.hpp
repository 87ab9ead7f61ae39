// The links between ranks once they know each other: every rank connects to all lower ones.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "src/bootstrap/acceptor.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/proof.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Other hosts are told this of it: not the zone, which has another number there.
NetAddress to_net_address(const SocketAddress& address);
// Unspecified family for none.
SocketAddress to_socket_address(const NetAddress& address);
// This process may open no more: no use trying again.
bool lacks_descriptors(const Error& error);

class Mesh {
 public:
  // `listeners` are where the table says this rank listens. `key` is the links' key: derived from the job's and the
  // table's salt. `zone`: of this rank's way to the meeting point, where that has one.
  Mesh(Rank rank, Table table, std::shared_ptr<const Key> key, std::vector<Fd> listeners, std::uint32_t zone);

  // One control connection per peer, within the table's time; ends early (NotReady) when `watch` becomes readable.
  Result<std::vector<Connection>> link_all(int watch);

  // One more TCP connection to `peer`; ends early (NotReady) when `watch` becomes readable.
  Result<Fd> open_stream(Rank peer, Deadline deadline, int watch);

  const Table& table() const { return table_; }

 private:
  std::vector<SocketAddress> addresses_of(Rank peer, Purpose purpose) const;
  Identity identity(Purpose purpose) const;
  Result<Connection> connect(Rank peer, Purpose purpose, Deadline deadline, int watch);
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
  std::deque<Proved> waiting_;               // arrived before they were asked for
  std::map<Rank, std::size_t> last_worked_;  // which of a peer's addresses to try first
};

}  // namespace wreath
