// Every mesh of 2, 4 and 8 ranks, made from the axes and what each of them can be.
#pragma once

#include <string>
#include <vector>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {

struct NamedMesh {
  std::string name;  // "dp2 x pp2 zb_h1 x tp2 sp zero 1"
  TrainOptions options;
};

// Data parallelism, a pipeline of every schedule, context parallelism as ring and all-to-all, tensor parallelism with
// and without sequence parallelism, all products of them, and where there are replicas (of data or context parallelism)
// each of these with ZeRO 0 to 3. A mesh that divides the model into more stages than `base` has layers gets a layer a
// stage.
std::vector<NamedMesh> all_meshes(const TrainOptions& base);

}  // namespace wreath::gpt::test
