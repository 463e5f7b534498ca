#pragma once

// The factories of all ops except conv2d, one factory per body. Tensors are dense row-major, images
// NHWC, and fp32 unless the spec has a type. Every factory checks its spec; a kInvalidArgument
// error names the op, the offending field and the values. Blocks are sized so that the longest time
// between two guard checks, commit included, is below 20 us.

#include "kernels/channel_affine.h"
#include "kernels/depthwise.h"
#include "kernels/elementwise.h"
#include "kernels/grouped_conv.h"
#include "kernels/index_ops.h"
#include "kernels/interpolate.h"
#include "kernels/matmul.h"
#include "kernels/normalize.h"
#include "kernels/pool.h"
#include "kernels/recurrent.h"
#include "kernels/reduce.h"
#include "kernels/reduce_rows.h"
#include "kernels/rows.h"
#include "kernels/shape_ops.h"
#include "kernels/softmax.h"
#include "kernels/transpose.h"
#include "kernels/window_ops.h"
