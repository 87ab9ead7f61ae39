// Counts the addresses of peers that the stand-in for libfabric holds.
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>

namespace wreath::test {

// Opens an address vector whose entries are counted until it is closed.
int open_peers(fi_ops_domain& real, fid_domain* domain, fi_av_attr* attributes, fid_av** vector, void* context);
std::size_t count_peers();

}  // namespace wreath::test
