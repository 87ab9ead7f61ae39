// Makes hosts of network namespaces, each with cards eth0 and eth1 on two switches. This needs root and iproute2:
// otherwise made() is false and the test skips itself.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "src/base/fd.hpp"

namespace wreath::testing_support {

enum class Family { V4, V6 };

class Network {
 public:
  explicit Network(int hosts, Family family = Family::V4) : hosts_(hosts), family_(family) {
    made_ = ::geteuid() == 0 && sh("ip netns add " + space(-1)) && sh(in(-1) + "link set lo up");
    for (int card = 0; card < 2 && made_; ++card) {
      made_ =
          sh(in(-1) + "link add br" + text(card) + " type bridge") && sh(in(-1) + "link set br" + text(card) + " up");
    }
    for (int host = 0; host < hosts && made_; ++host) made_ = add(host);
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network() {
    for (int host = -1; host < hosts_; ++host) sh("ip netns del " + space(host));
  }

  bool made() const { return made_; }
  static constexpr const char* kNeeds =
      "makes network namespaces: install iproute2, and run it as root where that is allowed";

  // Returns the namespace of a host; -1 stands for the switches.
  static std::string space(int host) {
    return "wreath-" + text(static_cast<int>(::getpid())) + "-" + (host < 0 ? "switch" : text(host));
  }
  std::string address(int host, int card = 0) const {
    const std::string network = text(73 + card);
    return family_ == Family::V4 ? "10." + network + ".0." + text(host + 1) : "fd" + network + "::" + text(host + 1);
  }
  // Gives the card an address that is valid on its network only, without the card's name. Returns the address, which is
  // empty where this kernel has no IPv6.
  std::string add_link_local(int host, int card = 0) const {
    const std::string link_local = "fe80::" + text(host + 1);
    const bool done = sh(in(host) + "addr add " + link_local + "/64 dev eth" + text(card) + " nodad");
    return done ? link_local : std::string();
  }
  // Unplugs a card. The host sees this: its card has no carrier any more.
  bool unplug(int host, int card = 0) const { return sh(in(-1) + "link set p" + text(host) + text(card) + " down"); }
  // Plugs it in again.
  bool plug_in(int host, int card = 0) const { return sh(in(-1) + "link set p" + text(host) + text(card) + " up"); }
  // Breaks a switch. No host sees this: packets to this switch are lost.
  bool break_switch(int card) const { return sh(in(-1) + "link set br" + text(card) + " down"); }
  // Makes a host drop packets from others to these ports, without an answer. Returns false where neither nft nor
  // iptables can do it.
  bool filter(int host, int first, int last) const {
    const std::string exec = "ip netns exec " + space(host) + " ";
    const std::string range = text(first) + "-" + text(last);
    const bool done = sh(exec + "nft add table inet wreath") &&
                      sh(exec + "nft add chain inet wreath input '{ type filter hook input priority 0; }'") &&
                      sh(exec + "nft add rule inet wreath input iifname '\"eth*\"' tcp dport " + range + " drop");
    return done || sh(exec + (family_ == Family::V4 ? "iptables" : "ip6tables") + " -A INPUT -i eth+ -p tcp --dport " +
                      text(first) + ":" + text(last) + " -j DROP");
  }

  // Moves this process to the host whose namespace has this name. `names` becomes the process's /etc/hosts where it is
  // not empty.
  static bool enter(const std::string& space, const std::string& names = {}) {
    const Fd file(::open(("/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::setns(file.get(), CLONE_NEWNET) != 0) return false;
    if (names.empty()) return true;
    return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount(names.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
  }

 private:
  static bool sh(const std::string& command) {
    return ::system((command + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT(cert-env33-c)
  }
  static std::string text(int number) { return std::to_string(number); }
  static std::string in(int host) { return "ip -n " + space(host) + " "; }

  bool add(int host) const {
    bool done = sh("ip netns add " + space(host)) && sh(in(host) + "link set lo up");
    for (int card = 0; card < 2 && done; ++card) {
      const std::string eth = "eth" + text(card);
      const std::string port = "p" + text(host) + text(card);
      const std::string prefix = family_ == Family::V4 ? "/24" : "/64 nodad";
      done = sh("ip link add name " + eth + " netns " + space(host) + " type veth peer name " + port + " netns " +
                space(-1)) &&
             sh(in(-1) + "link set " + port + " master br" + text(card) + " up") &&
             sh(in(host) + "addr add " + address(host, card) + prefix + " dev " + eth) &&
             sh(in(host) + "link set " + eth + " up");
    }
    return done;
  }

  int hosts_;
  Family family_;
  bool made_ = false;
};

}  // namespace wreath::testing_support
