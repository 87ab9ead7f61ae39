// The links between ranks once they know each other: every rank connects to all lower ones.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "src/bootstrap/acceptor.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/proof.hpp"
#include "wreath/types.hpp"

namespace wreath {

NetAddress to_net_address(const SocketAddress& address);
// Unspecified family for none.
SocketAddress to_socket_address(const NetAddress& address);

class Mesh {
 public:
  // `unix_listener` and `tcp_listener` (may be empty) are where the table says this rank listens.
  // `key` is the links' key: derived from the job's and the table's salt.
  Mesh(Rank rank, Table table, std::shared_ptr<const Key> key, Fd unix_listener, Fd tcp_listener);

  // One control connection per peer; ends early (NotReady) when `watch` becomes readable.
  Result<std::vector<Fd>> link_all(Deadline deadline, int watch);

  // One more TCP connection to `peer`; ends early (NotReady) when `watch` becomes readable.
  Result<Fd> open_stream(Rank peer, Deadline deadline, int watch);

  const Table& table() const { return table_; }

 private:
  std::vector<SocketAddress> addresses_of(Rank peer, Purpose purpose) const;
  Identity identity(Purpose purpose) const;
  Result<Fd> connect(Rank peer, Purpose purpose, Deadline deadline, int watch) const;
  Result<Fd> accept(Rank peer, Purpose purpose, Deadline deadline, int watch);
  std::string describe(Rank peer) const;

  Rank rank_;
  Table table_;
  std::shared_ptr<const Key> key_;
  Acceptor acceptor_;
  std::deque<Proved> waiting_;  // arrived before they were asked for
};

}  // namespace wreath
