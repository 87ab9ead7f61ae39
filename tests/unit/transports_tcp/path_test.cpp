// Tests what a link says of its way.
#include <gtest/gtest.h>

#include "tests/unit/transports_tcp/pair.hpp"

namespace wreath::tcp_path {
namespace {

TEST(TcpLink, NamesItsInterface) {
  const LinkPair tcp(shape_of(1, 2, 4096, 0), SocketKind::Tcp);
  EXPECT_EQ(tcp.a->path(), "lo");
  EXPECT_EQ(tcp.b->path(), "lo");
  // A socket of one host has none.
  const LinkPair local(shape_of(1, 2, 4096, 0), SocketKind::Unix);
  EXPECT_EQ(local.a->path(), "");
}

TEST(TcpLink, NeedsNoWordsAndHoldsNoMemory) {
  const LinkPair pair(shape_of(1, 2, 4096, 0), SocketKind::Tcp);
  EXPECT_FALSE(pair.a->has_words());
  EXPECT_TRUE(pair.a->arm());
  EXPECT_TRUE(pair.a->stop());
}

}  // namespace
}  // namespace wreath::tcp_path
