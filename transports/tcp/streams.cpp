// Sets options: see streams.hpp.
#include "transports/tcp/streams.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/base/socket.hpp"
#include "transports/tcp/stream_error.hpp"

namespace wreath {
namespace {

int integer_option(int socket, int option) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

// Makes small messages leave at once. A kernel that refuses reno keeps the system's choice.
Status set_tcp_options(int socket, Rank peer, bool same_host) {
  const int one = 1;
  if (::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
    return Error{ErrorCode::System,
                 fmt::format("tcp link to rank {}: TCP_NODELAY: {}", peer, stream_error(errno).message)};
  }
  if (same_host) set_unpaced(socket);
  return {};
}

}  // namespace

Status prepare_stream(int socket, Rank peer, bool same_host, bool rails) {
  if (integer_option(socket, SO_TYPE) != SOCK_STREAM) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("tcp link to rank {}: descriptor {} is not a stream socket", peer, socket)};
  }
  const int domain = integer_option(socket, SO_DOMAIN);
  if (domain != AF_INET && domain != AF_INET6) return {};
  WREATH_TRY(set_tcp_options(socket, peer, same_host));
  if (rails) limit_unsent(socket, true);
  return {};
}

void limit_unsent(int socket, bool limited) {
  const int bytes = limited ? 128 * 1024 : 0;  // 0: as the system says
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

}  // namespace wreath
