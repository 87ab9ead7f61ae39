// This file builds the grid of ranks and its communicators.
#include "training/mesh/mesh.hpp"

#include <utility>

namespace wreath::training {

namespace {

// Makes a group of the ranks that share `color`, in the order of `key`. Every rank of the world calls it.
Result<std::unique_ptr<Group>> split(const std::string& name, const std::shared_ptr<Communicator>& world, int color,
                                     int key, CommunicationAccounting& accounting) {
  Result<Communicator> part = world->split(color, key);
  if (!part) return part.error();
  if (part->ranks() <= 1) return std::make_unique<Group>(name, accounting);
  return std::make_unique<Group>(name, std::make_shared<Communicator>(std::move(*part)), accounting);
}

}  // namespace

std::string name(const MeshShape& shape) {
  std::string text;
  const auto add = [&](const char* axis, int size) {
    if (size == 1) return;
    text += (text.empty() ? "" : " x ") + std::string(axis) + std::to_string(size);
  };
  add("dp", shape.dp);
  add("pp", shape.pp);
  add("cp", shape.cp);
  add("tp", shape.tp);
  return text.empty() ? "1 rank" : text;
}

MeshPlace place_of(const MeshShape& shape, int rank) noexcept {
  MeshPlace place;
  place.tp = rank % shape.tp;
  rank /= shape.tp;
  place.cp = rank % shape.cp;
  rank /= shape.cp;
  place.pp = rank % shape.pp;
  place.dp = rank / shape.pp;
  return place;
}

int rank_of(const MeshShape& shape, const MeshPlace& place) noexcept {
  return ((place.dp * shape.pp + place.pp) * shape.cp + place.cp) * shape.tp + place.tp;
}

Result<Mesh> Mesh::create(std::shared_ptr<Communicator> world, const MeshShape& shape,
                          CommunicationAccounting& accounting) {
  const int ranks = world && world->ranks() > 0 ? world->ranks() : 1;
  if (shape.dp < 1 || shape.pp < 1 || shape.cp < 1 || shape.tp < 1 || shape.ranks() != ranks) {
    return Error{ErrorCode::InvalidArgument, "a mesh of dp " + std::to_string(shape.dp) + " x pp " +
                                                 std::to_string(shape.pp) + " x cp " + std::to_string(shape.cp) +
                                                 " x tp " + std::to_string(shape.tp) + " is not " +
                                                 std::to_string(ranks) + " ranks"};
  }
  Mesh mesh;
  mesh.shape_ = shape;
  mesh.place_ = place_of(shape, ranks > 1 ? world->rank() : 0);
  mesh.accounting_ = &accounting;
  // Ranks of a line have equal places on all other axes, so the first rank of their line is its color.
  const auto line = [&](const std::string& group, MeshPlace first, int size,
                        int key) -> Result<std::unique_ptr<Group>> {
    if (size == 1) return std::make_unique<Group>(group, accounting);
    return split(group, world, rank_of(shape, first), key, accounting);
  };
  const MeshPlace at = mesh.place_;
  const auto take = [](std::unique_ptr<Group>& into, Result<std::unique_ptr<Group>> made) -> Status {
    if (!made) return made.error();
    into = std::move(*made);
    return {};
  };
  WREATH_TRY(take(mesh.dp_, line("dp", {0, at.pp, at.cp, at.tp}, shape.dp, at.dp)));
  WREATH_TRY(take(mesh.pp_, line("pp", {at.dp, 0, at.cp, at.tp}, shape.pp, at.pp)));
  WREATH_TRY(take(mesh.cp_, line("cp", {at.dp, at.pp, 0, at.tp}, shape.cp, at.cp)));
  WREATH_TRY(take(mesh.tp_, line("tp", {at.dp, at.pp, at.cp, 0}, shape.tp, at.tp)));
  mesh.world_ =
      ranks > 1 ? std::make_unique<Group>("world", world, accounting) : std::make_unique<Group>("world", accounting);
  if (shape.dp == 1 || shape.cp == 1) {
    mesh.replicas_ = std::make_unique<Group>("dp_cp", shape.cp == 1 ? *mesh.dp_ : *mesh.cp_);
  } else {
    WREATH_TRY(
        take(mesh.replicas_, line("dp_cp", {0, at.pp, 0, at.tp}, shape.dp * shape.cp, at.dp * shape.cp + at.cp)));
  }
  if (shape.dp == 1) {
    mesh.model_ = std::make_unique<Group>("model", *mesh.world_);
  } else {
    WREATH_TRY(take(mesh.model_, line("model", {at.dp, 0, 0, 0}, shape.pp * shape.cp * shape.tp, mesh.rank())));
  }
  if (shape.pp <= 2) {
    mesh.embedding_ = std::make_unique<Group>("embedding", *mesh.pp_);
  } else {
    const bool inner = at.pp != 0 && at.pp != shape.pp - 1;
    const int color = rank_of(shape, {at.dp, inner ? at.pp : 0, at.cp, at.tp});
    WREATH_TRY(take(mesh.embedding_, split("embedding", world, color, at.pp, accounting)));
  }
  return mesh;
}

void Mesh::settle() {
  for (const auto* group : {&world_, &dp_, &pp_, &cp_, &tp_, &replicas_, &model_, &embedding_}) (*group)->settle(true);
}

void Mesh::abort() noexcept {
  for (const auto* group : {&world_, &dp_, &pp_, &cp_, &tp_, &replicas_, &model_, &embedding_}) {
    if (!(*group)->alone()) static_cast<void>((*group)->communicator().abort());
  }
}

}  // namespace wreath::training
