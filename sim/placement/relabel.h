#pragma once

#include "cluster/placement/placer.h"

namespace lagoon {

/// `next` with GPUs renamed so that most of `view.current` stays: only GPUs of equal size change
/// places, so it passes CheckAssignment as before. What stays of a model on a GPU is the smaller of
/// its granules there before and after; up to 64 equal GPUs the sum is the largest possible, of
/// more it is near that. Without any overlap a GPU keeps its name if it can.
/// For placers that plan from nothing: for these, GPUs of equal size have no names.
Assignment Relabel(const PlacementView& view, Assignment next);

}  // namespace lagoon
