// This file declares steps of optimizers on the values of one parameter. They compute where these values lie.
#pragma once

#include <span>

#include "training/compute/kernels/adamw_factors.hpp"

namespace wreath::training {

// Makes one pass of AdamW over weights, gradients and both moments.
void adamw_step(const AdamWFactors& factors, const AdamWRows& rows);
// Computes value -= rate * (factor * gradient).
void sgd_step(std::span<float> value, std::span<const float> gradient, float rate, float factor);

}  // namespace wreath::training
