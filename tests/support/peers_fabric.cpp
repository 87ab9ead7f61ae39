// Puts functions of its own before those of an address vector: see peers_fabric.hpp.
#include "tests/support/peers_fabric.hpp"

#include <map>
#include <mutex>

#include "tests/support/real_fabric.hpp"

namespace wreath::test {
namespace {

struct PeerVector {
  fi_ops_av* real = nullptr;
  fi_ops* object = nullptr;
  std::size_t peers = 0;
};

struct PeerVectors {
  std::mutex mutex;
  std::map<fid*, PeerVector> all;
};

PeerVectors& vectors() {
  static PeerVectors* const all = new PeerVectors;  // NOLINT(cppcoreguidelines-owning-memory): never deleted
  return *all;
}

int insert_peers(fid_av* vector, const void* addresses, std::size_t count, fi_addr_t* peers, std::uint64_t flags,
                 void* context) {
  const std::lock_guard lock(vectors().mutex);
  PeerVector& known = vectors().all.at(&vector->fid);
  const int inserted = known.real->insert(vector, addresses, count, peers, flags, context);
  if (inserted > 0) known.peers += static_cast<std::size_t>(inserted);
  return inserted;
}

int remove_peers(fid_av* vector, fi_addr_t* peers, std::size_t count, std::uint64_t flags) {
  const std::lock_guard lock(vectors().mutex);
  PeerVector& known = vectors().all.at(&vector->fid);
  const int returned = known.real->remove(vector, peers, count, flags);
  if (returned == 0) known.peers -= count;
  return returned;
}

int close_peers(fid* object) {
  const std::lock_guard lock(vectors().mutex);
  const int returned = vectors().all.at(object).object->close(object);
  if (returned == 0) vectors().all.erase(object);
  return returned;
}

}  // namespace

int open_peers(fi_ops_domain& real, fid_domain* domain, fi_av_attr* attributes, fid_av** vector, void* context) {
  const int returned = real.av_open(domain, attributes, vector, context);
  if (returned != 0) return returned;
  const std::lock_guard lock(vectors().mutex);
  PeerVector& known = vectors().all[&(*vector)->fid];
  known = {(*vector)->ops, (*vector)->fid.ops};
  replace((*vector)->ops, [](fi_ops_av& table) {
    table.insert = &insert_peers;
    table.remove = &remove_peers;
  });
  replace((*vector)->fid.ops, [](fi_ops& table) { table.close = &close_peers; });
  return 0;
}

std::size_t count_peers() {
  const std::lock_guard lock(vectors().mutex);
  std::size_t count = 0;
  for (const auto& [object, each] : vectors().all) count += each.peers;
  return count;
}

}  // namespace wreath::test
