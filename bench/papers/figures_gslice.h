#pragma once

// GSLICE's figures that the batch-level simulator reproduces; bench/papers/figures.h. The models'
// times are those of cluster/v100_surfaces.h, which says what of them is assumed.

#include "bench/papers/figure.h"

namespace lagoon::bench {

Result<Figure> GsliceFigure8(const FigureOptions& options);   // with Figure 9 and Table 2
Result<Figure> GsliceFigure10(const FigureOptions& options);  // with Table 3
Result<Figure> GsliceTable5(const FigureOptions& options);
Result<Figure> GsliceFigure14(const FigureOptions& options);  // with Figure 12c
Result<Figure> GsliceFigure15(const FigureOptions& options);
Result<Figure> GsliceFigure16(const FigureOptions& options);

}  // namespace lagoon::bench
