#pragma once

// Whether the models of an ensemble's steps fit the ensemble and each other.

#include <span>

#include "base/status.h"
#include "serving/model/served_model.h"

namespace lagoon {

/// What an ensemble needs to know of the model of a step. Borrows from the model.
struct StepModel {
  const Signature& signature;
  const ModelSettings& settings;
};

/// `steps`: the models of the ensemble's steps, in the order of EnsembleSettings::steps.
/// kInvalidArgument and kUnimplemented name the step, the model, the tensor and both values, for:
/// an ensemble, a decoupled model or one of sequences as a step; another class; batches smaller
/// than the ensemble's; a tensor that the model does not have, or an input that the step does not
/// give; types or shapes that differ. A dim of -1 fits any size.
Status CheckSteps(const StepModel& ensemble, std::span<const StepModel> steps);

}  // namespace lagoon
