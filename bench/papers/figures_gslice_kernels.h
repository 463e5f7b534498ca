#pragma once

// GSLICE's figures that follow from kernels, blocks and units; bench/papers/figures.h.

#include "bench/papers/figure.h"

namespace lagoon::bench {

Result<Figure> GsliceFigure1(const FigureOptions& options);
Result<Figure> GsliceFigure2(const FigureOptions& options);
Result<Figure> GsliceFigure5(const FigureOptions& options);
Result<Figure> GsliceFigure7(const FigureOptions& options);
Result<Figure> GsliceSwitch(const FigureOptions& options);

}  // namespace lagoon::bench
