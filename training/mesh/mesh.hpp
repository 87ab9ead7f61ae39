// Mesh arranges the ranks of a job as a grid with one axis for each kind of parallelism, and has the groups along its
// lines.
#pragma once

#include <memory>
#include <string>

#include "training/mesh/group.hpp"

namespace wreath::training {

// The sizes of the axes, outermost first. Tensor ranks are neighbours, and data ranks are farthest apart.
struct MeshShape {
  // Data parallelism: ranks have other samples.
  int dp = 1;
  // Pipeline parallelism: ranks have other layers.
  int pp = 1;
  // Context parallelism: ranks have other parts of each sequence.
  int cp = 1;
  // Tensor parallelism: ranks have other parts of each weight.
  int tp = 1;
  int ranks() const noexcept { return dp * pp * cp * tp; }
  bool operator==(const MeshShape&) const = default;
};

// Returns a text like "dp2 x tp2" with the axes longer than 1, or "1 rank" where none is.
std::string name(const MeshShape& shape);

// A rank's place on each axis.
struct MeshPlace {
  int dp = 0;
  int pp = 0;
  int cp = 0;
  int tp = 0;
  bool operator==(const MeshPlace&) const = default;
};

// Both functions use rank = ((dp * PP + pp) * CP + cp) * TP + tp.
MeshPlace place_of(const MeshShape& shape, int rank) noexcept;
int rank_of(const MeshShape& shape, const MeshPlace& place) noexcept;

// Holds the groups, which count their traffic under their names: "dp", "pp", "cp", "tp", "dp_cp", "embedding", "model",
// "world". Where two groups have the same ranks they share a communicator. The traffic then counts under the group that
// the call was made on.
class Mesh {
 public:
  // Builds the mesh. Every rank of `world` calls it with the same shape of world.ranks() ranks; otherwise the error is
  // InvalidArgument. A world of one rank may be an empty Communicator. `accounting` outlives the mesh.
  static Result<Mesh> create(std::shared_ptr<Communicator> world, const MeshShape& shape,
                             CommunicationAccounting& accounting);

  const MeshShape& shape() const noexcept { return shape_; }
  const MeshPlace& place() const noexcept { return place_; }
  int rank() const noexcept { return rank_of(shape_, place_); }

  Group& dp() noexcept { return *dp_; }
  Group& pp() noexcept { return *pp_; }
  Group& cp() noexcept { return *cp_; }
  Group& tp() noexcept { return *tp_; }
  // Returns the ranks that hold the same weights, over which a gradient is averaged. They are dp x cp, by dp, then cp.
  Group& replicas() noexcept { return *replicas_; }
  // Returns the ranks that hold the parts of one copy of the model: pp x cp x tp.
  Group& model() noexcept { return *model_; }
  // Returns the first and last stage of this rank's pipeline, which both hold a tied embedding. A rank in between is
  // alone, and so is each rank where there is one stage.
  Group& embedding() noexcept { return *embedding_; }
  Group& world() noexcept { return *world_; }
  // Ends all calls in flight on all groups, the world's among them, here and on their other ranks (Aborted).
  void abort() noexcept;
  CommunicationAccounting& accounting() noexcept { return *accounting_; }
  // Settles all groups (Group::settle) and waits.
  void settle();

 private:
  Mesh() = default;
  MeshShape shape_;
  MeshPlace place_;
  CommunicationAccounting* accounting_ = nullptr;
  std::unique_ptr<Group> dp_, pp_, cp_, tp_, replicas_, model_, embedding_, world_;
};

}  // namespace wreath::training
