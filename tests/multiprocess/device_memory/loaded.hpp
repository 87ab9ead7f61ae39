// Finds out whether ranks read each other's memory in place, because the kernel counts the pages of mappings that were
// touched.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace wreath::testing_support {

// Returns the KiB of peers' memory that this process has loaded through mappings that are read only.
inline long loaded_kib() {
  std::ifstream smaps("/proc/self/smaps");
  bool of_a_peer = false;
  long kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string name;
    long value = 0;
    if (line.find("memfd:") != std::string::npos) {
      of_a_peer = line.find(" r--s ") != std::string::npos && line.find("wreath-device") != std::string::npos;
    } else if (of_a_peer && words >> name >> value && name == "Rss:") {
      kib += value;
      of_a_peer = false;
    }
  }
  return kib;
}

// Returns the part of Communicator::transport_to about devices: "shm, cuda_ipc", "shm (cuda_ipc: why not)" or "shm".
// The CPU decides whether ranks read the host's memory at once, too.
inline std::string way_of_devices(const std::string& transport) {
  if (transport.find(", cuda_ipc") != std::string::npos) return "shm, cuda_ipc";
  const std::size_t why = transport.find("cuda_ipc: ");
  if (why == std::string::npos) return "shm";
  return "shm (" + transport.substr(why, transport.find_first_of(";)", why) - why) + ")";
}

}  // namespace wreath::testing_support
