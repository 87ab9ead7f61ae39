// Layout lays the parameters of a model end to end in buckets, the units in which gradients and weights are
// communicated.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "training/parameters/strategy.hpp"
#include "training/parameters/strategy_options.hpp"

namespace wreath::training {

// Names the groups that sum a gradient before the replicas do. Flat memory is in this order, so that all gradients of
// one sum lie together.
enum class EarlierSum : std::uint8_t { None, Tensor, TensorAndEmbedding, Embedding };

struct Slot {
  Parameter* parameter = nullptr;
  std::size_t begin = 0;  // within the bucket, in elements
  std::size_t count = 0;
  std::span<float> of(std::span<float> bucket) const { return bucket.subspan(begin, count); }
};

struct Bucket {
  EarlierSum earlier_sum = EarlierSum::None;
  // The begin in the flat memory, in elements. It is a multiple of `parts`.
  std::size_t begin = 0;
  // The number of elements, including those at the end that belong to no parameter and stay zero.
  std::size_t padded = 0;
  std::vector<Slot> slots;
  std::vector<int> users;  // units that add to its gradients
  std::span<float> of(std::span<float> flat) const { return flat.subspan(begin, padded); }
};

struct ElementRange {
  std::size_t begin = 0;
  std::size_t count = 0;
};

struct LayoutOptions {
  // True makes a bucket for each unit. False makes buckets by bytes, in reverse order of registration.
  bool by_unit = false;
  std::size_t first_bucket_bytes = 0;
  std::size_t bucket_bytes = 0;
  // Each bucket is padded to a multiple of this, by at most parts - 1 elements.
  std::size_t parts = 1;
};

class Layout {
 public:
  Layout(ParameterList& parameters, const DataParallelGroups& groups, const DataParallelOptions& options,
         const LayoutOptions& layout);
  // Returns first the buckets that wait for no earlier sum, in the order their gradients are ready, and then the
  // others.
  const std::vector<Bucket>& buckets() const noexcept { return buckets_; }
  std::size_t size() const noexcept { return size_; }  // of the flat memory, padding included
  int units() const noexcept { return units_; }
  // Returns the numbers of the buckets that hold the parameters of `unit`. The layout must be by unit.
  const std::vector<std::size_t>& of_unit(int unit) const { return of_unit_[static_cast<std::size_t>(unit)]; }
  // Returns `unit` and the units whose parameters it also uses.
  const std::vector<int>& used_by(int unit) const { return used_by_[static_cast<std::size_t>(unit)]; }
  // Return the elements of the flat memory that are summed over the tensor ranks, and over the embedding's.
  ElementRange partial() const { return range(EarlierSum::Tensor, EarlierSum::TensorAndEmbedding); }
  ElementRange tied() const { return range(EarlierSum::TensorAndEmbedding, EarlierSum::Embedding); }

 private:
  void find_users(const std::vector<std::vector<int>>& also_uses);
  void add_buckets(EarlierSum earlier_sum, const std::vector<Parameter*>& parameters, const LayoutOptions& layout);
  void close(Bucket& bucket, std::size_t parts);
  ElementRange range(EarlierSum first, EarlierSum last) const;

  std::vector<Bucket> buckets_;
  std::size_t size_ = 0;
  int units_ = 0;
  std::vector<std::vector<std::size_t>> of_unit_;
  std::vector<std::vector<int>> used_by_;
  std::vector<std::vector<int>> users_of_;  // by unit of parameters
};

// The elements [begin, begin + count) of every bucket that one rank owns: part `part` of `parts` equal ones.
struct Share {
  std::size_t part = 0;
  std::size_t parts = 1;
  std::size_t count(const Bucket& bucket) const { return bucket.padded / parts; }
  std::size_t begin(const Bucket& bucket) const { return part * count(bucket); }
  // Returns the bucket's share in flat memory that holds only shares.
  std::span<float> in_shares(const Bucket& bucket, std::span<float> shares) const {
    return shares.subspan(bucket.begin / parts, count(bucket));
  }
};

// Adds the parts of parameters that lie in [begin, begin + value.size()) of the bucket, as pieces.
void add_pieces(const Bucket& bucket, std::size_t begin, std::span<float> value, std::span<const float> gradient,
                std::vector<Piece>& pieces);
// Fills `out` with the initial values of [begin, begin + out.size()) of the bucket; padding is zero.
void initialize(const Bucket& bucket, std::size_t begin, std::span<float> out, std::uint64_t seed);

}  // namespace wreath::training
