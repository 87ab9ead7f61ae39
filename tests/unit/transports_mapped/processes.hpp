// Connects two processes by one socket pair. Offers travel with their descriptors, as a communicator sends them.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "src/base/fd.hpp"
#include "wreath/transport.hpp"

namespace wreath {

inline std::pair<Fd, Fd> packet_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) ADD_FAILURE() << "socketpair";
  return {Fd(ends[0]), Fd(ends[1])};
}

inline void send_offer(const Fd& socket, const Offer& offer) {
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  iovec part{const_cast<std::byte*>(offer.bytes.data()), offer.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!offer.descriptors.empty()) {
    const std::size_t bytes = offer.descriptors.size() * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), offer.descriptors.data(), bytes);
  }
  ASSERT_EQ(::sendmsg(socket.get(), &message, 0), static_cast<ssize_t>(offer.bytes.size()));
}

inline Offer receive_offer(const Fd& socket) {
  Offer offer;
  offer.bytes.resize(4096);
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  iovec part{offer.bytes.data(), offer.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t received = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  offer.bytes.resize(received > 0 ? static_cast<std::size_t>(received) : 0);
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
    offer.descriptors.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(offer.descriptors.data(), CMSG_DATA(header), offer.descriptors.size() * sizeof(int));
  }
  return offer;
}

// Runs `body` in a child process, which ends with 0 if no expectation of it failed.
template <typename Body>
pid_t start_child(Body body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  body();
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

// A child process and this process's end of the socket pair that both share.
struct PeerProcess {
  pid_t child;
  Fd socket;
};
template <typename Body>
// Starts a child that runs `body` with its end of a new socket pair.
PeerProcess start_peer(Body body) {
  auto [ours, theirs] = packet_pair();
  const pid_t child = start_child([&body, parents = &ours, childs = &theirs] {
    // The child closes the parent's end, so that each end notices when the other is gone.
    *parents = Fd();
    body(std::move(*childs));
  });
  return {child, std::move(ours)};
}

inline void expect_success(pid_t child) {
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

inline int open_descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  int count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// Returns the number of lines of /proc/self/maps that are this library's shared memory.
inline int mapped_memfds() {
  std::ifstream maps("/proc/self/maps");
  int lines = 0;
  for (std::string line; std::getline(maps, line);) lines += line.find("memfd:wreath") != std::string::npos ? 1 : 0;
  return lines;
}

}  // namespace wreath
