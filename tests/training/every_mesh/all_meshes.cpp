// Makes the meshes as products of axes.
#include "tests/training/every_mesh/all_meshes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace wreath::gpt::test {

namespace {

// One value that an axis can have.
struct Choice {
  const char* name;
  void (*set)(TrainOptions& options);
};

const std::vector<Choice> kPlain = {{"", [](TrainOptions&) {}}};

const std::vector<Choice> kSchedules = {
    {" gpipe", [](TrainOptions& o) { o.schedule = "gpipe"; }},
    {" 1f1b", [](TrainOptions& o) { o.schedule = "1f1b"; }},
    {" interleaved",
     [](TrainOptions& o) {
       o.schedule = "interleaved";
       o.chunks = 2;
     }},
    {" zb_h1", [](TrainOptions& o) { o.schedule = "zb_h1"; }},
};

const std::vector<Choice> kAttentions = {
    {" ring", [](TrainOptions& o) { o.context_attention = "ring"; }},
    {" all-to-all", [](TrainOptions& o) { o.context_attention = "ulysses"; }},
};

const std::vector<Choice> kTensorKinds = {
    {"", [](TrainOptions&) {}},
    {" sp", [](TrainOptions& o) { o.sequence_parallel = true; }},
};

const std::vector<Choice> kZeroStages = {
    {"", [](TrainOptions&) {}},
    {" zero 1", [](TrainOptions& o) { o.zero_stage = 1; }},
    {" zero 2", [](TrainOptions& o) { o.zero_stage = 2; }},
    {" zero 3", [](TrainOptions& o) { o.zero_stage = 3; }},
};

// Replaces `meshes` by the product of each mesh with each choice.
void multiply(std::vector<NamedMesh>& meshes, const std::string& name, const std::vector<Choice>& choices) {
  std::vector<NamedMesh> products;
  for (const NamedMesh& mesh : meshes) {
    for (const Choice& choice : choices) {
      NamedMesh product = mesh;
      product.name += name + choice.name;
      choice.set(product.options);
      products.push_back(std::move(product));
    }
  }
  meshes = std::move(products);
}

std::vector<NamedMesh> meshes_of(const training::MeshShape& shape, const TrainOptions& base) {
  std::vector<NamedMesh> meshes = {{"", base}};
  meshes[0].options.mesh = shape;
  meshes[0].options.micro_batches = shape.pp;
  const auto axis = [&](const char* name, int size, const std::vector<Choice>& choices) {
    const char* times = meshes[0].name.empty() ? "" : " x ";
    if (size > 1) multiply(meshes, times + (name + std::to_string(size)), choices);
  };
  axis("dp", shape.dp, kPlain);
  axis("pp", shape.pp, kSchedules);
  axis("cp", shape.cp, kAttentions);
  axis("tp", shape.tp, kTensorKinds);
  if (shape.dp * shape.cp > 1) multiply(meshes, "", kZeroStages);
  for (NamedMesh& mesh : meshes) {
    const std::int64_t stages = static_cast<std::int64_t>(shape.pp) * mesh.options.chunks;
    mesh.options.model.layers = std::max(mesh.options.model.layers, stages);
  }
  return meshes;
}

// Returns all (dp, pp, cp, tp) whose product is `ranks`.
std::vector<training::MeshShape> shapes_of(int ranks) {
  constexpr int kSizes[] = {8, 4, 2, 1};
  std::vector<training::MeshShape> shapes;
  for (const int dp : kSizes) {
    for (const int pp : kSizes) {
      for (const int cp : kSizes) {
        for (const int tp : kSizes) {
          const training::MeshShape shape{.dp = dp, .pp = pp, .cp = cp, .tp = tp};
          if (shape.ranks() == ranks) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

}  // namespace

std::vector<NamedMesh> all_meshes(const TrainOptions& base) {
  std::vector<NamedMesh> all;
  for (const int ranks : {2, 4, 8}) {
    for (const training::MeshShape& shape : shapes_of(ranks)) {
      std::ranges::move(meshes_of(shape, base), std::back_inserter(all));
    }
  }
  return all;
}

}  // namespace wreath::gpt::test
