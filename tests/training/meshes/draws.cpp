// Draws options by random numbers.
#include "tests/training/meshes/draws.hpp"

#include <algorithm>

#include "training/random/philox.hpp"

namespace wreath::gpt::test {

namespace {

constexpr int kMostRanks = 8;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : stream_(seed, "random mesh") {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(stream_.below(static_cast<std::uint64_t>(high - low + 1), index_++));
  }
  bool coin() { return between(0, 1) == 1; }

 private:
  training::RandomStream stream_;
  std::uint64_t index_ = 0;
};

training::MeshShape draw_mesh(Draw& draw) {
  training::MeshShape mesh;
  for (int* axis : {&mesh.tp, &mesh.dp, &mesh.pp, &mesh.cp}) {
    const int room = kMostRanks / mesh.ranks();
    if (room > 1 && draw.coin()) *axis = static_cast<int>(draw.between(2, std::min(room, 4)));
  }
  return mesh;
}

}  // namespace

TrainOptions draw_options(std::uint64_t seed) {
  Draw draw(seed);
  TrainOptions options = small_options();
  options.mesh = draw_mesh(draw);
  options.model.heads = draw.between(4, 6);
  options.model.width = options.model.heads * draw.between(3, 9);
  options.model.layers = draw.between(4, 8);
  options.model.context = draw.between(9, 31);
  options.model.bias = draw.coin();
  options.model.dropout = draw.coin() ? 0.1f : 0.0f;
  options.model.gelu = draw.coin() ? training::Gelu::Tanh : training::Gelu::Exact;
  options.micro_batches = static_cast<int>(draw.between(1, 5));
  options.batch = options.mesh.dp * options.micro_batches * draw.between(1, 3);
  options.zero_stage = static_cast<int>(draw.between(0, 3));
  options.sequence_parallel = options.mesh.tp > 1 && draw.coin();
  options.context_attention = draw.coin() && options.mesh.cp * options.mesh.tp <= 4 ? "ulysses" : "ring";
  constexpr const char* kSchedules[] = {"gpipe", "1f1b", "zb_h1", "interleaved"};
  options.schedule = kSchedules[draw.between(0, 3)];
  const std::int64_t most_chunks = options.model.layers / options.mesh.pp;
  if (options.schedule == "interleaved" && most_chunks < 2) options.schedule = "1f1b";
  if (options.schedule == "interleaved") options.chunks = static_cast<int>(draw.between(2, most_chunks));
  options.overlap = draw.coin();
  options.recompute = draw.coin();
  options.bucket_bytes = static_cast<std::size_t>(draw.between(1, 40)) * 1000;
  options.warmup_steps = 2;
  return options;
}

std::string describe(const TrainOptions& o) {
  return name(o.mesh) + ", zero " + std::to_string(o.zero_stage) + ", " + o.schedule + " of " +
         std::to_string(o.chunks) + " chunks, " + std::to_string(o.micro_batches) + " micro-batches, batch " +
         std::to_string(o.batch) + ", layers " + std::to_string(o.model.layers) + ", heads " +
         std::to_string(o.model.heads) + ", width " + std::to_string(o.model.width) + ", context " +
         std::to_string(o.model.context) + (o.model.bias ? ", bias" : "") + (o.model.dropout > 0 ? ", dropout" : "") +
         (o.sequence_parallel ? ", sequence parallel" : "") + (o.overlap ? ", overlap" : "") +
         (o.recompute ? ", recompute" : "") + ", " + o.context_attention;
}

}  // namespace wreath::gpt::test
