#pragma once

// The factories of all ops except conv2d, one factory per body. Tensors are dense row-major, images
// NHWC, and fp32 unless the spec has a type. Every factory checks its spec; a kInvalidArgument
// error names the op, the offending field and the values. Blocks are sized so that the longest time
// between two guard checks, commit included, is below 20 us.

#include "kernels/conv/depthwise.h"
#include "kernels/conv/grouped_conv.h"
#include "kernels/elementwise/dynamic_quantize.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/rows.h"
#include "kernels/lines/channel_affine.h"
#include "kernels/lines/normalize.h"
#include "kernels/lines/reduce.h"
#include "kernels/lines/reduce_rows.h"
#include "kernels/lines/softmax.h"
#include "kernels/move/index_ops.h"
#include "kernels/move/shape_ops.h"
#include "kernels/move/transpose.h"
#include "kernels/nbits/nbits.h"
#include "kernels/select/non_max.h"
#include "kernels/select/select.h"
#include "kernels/sequence/integer_linear.h"
#include "kernels/sequence/matmul.h"
#include "kernels/sequence/recurrent.h"
#include "kernels/sequence/rotate_append.h"
#include "kernels/window/interpolate.h"
#include "kernels/window/pool.h"
#include "kernels/window/sample.h"
#include "kernels/window/window_ops.h"
